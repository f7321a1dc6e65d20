from pathlib import Path

import pytest

from tests.trips.world import Platform, World

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.trip)


@pytest.fixture(scope="session")
def platform():
    running = Platform(REACH_VISIBILITY_TIMEOUT="60", REACH_WEB_WORKERS="2")
    yield running
    running.stop()


@pytest.fixture
def world(platform):
    platform.wait_ready()
    one = World(platform)
    yield one
    one.close()
