"""A real PostgreSQL and Redis for every test run: those of the environment, else embedded ones of the run's own."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling

from reach_platform.embedded.servers import Servers

os.environ["DJANGO_SETTINGS_MODULE"] = "reach_platform.settings"


class EmbeddedServers:
    """Started once, before the workers of pytest-xdist, which find the addresses in their environment."""

    def __init__(self) -> None:
        self.home = tempfile.TemporaryDirectory(prefix="reach-test-", ignore_cleanup_errors=True)
        os.environ["REACH_DATA_DIR"] = self.home.name
        self.servers = Servers(Path(self.home.name))
        os.environ["DATABASE_URL"] = self.servers.place.database_url
        os.environ["REDIS_URL"] = self.servers.place.redis_url

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self.servers.__enter__()
        with psycopg.connect(self.servers.place.database_url, autocommit=True) as connection:
            # No test cuts the power, and a thousand of them commit; the product's own servers keep these on.
            for setting in ("fsync", "full_page_writes"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.servers.__exit__()
        self.servers.remove()
        self.home.cleanup()


if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["REACH_REDIS_PREFIX"] = f"test-{worker}"

EMBEDDED = None if "DATABASE_URL" in os.environ or "REDIS_URL" in os.environ else EmbeddedServers()

# The addresses must be in the environment first.
from django.conf import settings  # noqa: E402
from django.db.backends.postgresql.creation import DatabaseCreation  # noqa: E402

settings.DATABASES  # noqa: B018 - pytest-django sets Django up only if the settings were read by now
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a good one takes a second, on purpose


def drop_with_its_sessions(creation: Any, name: str, verbosity: int) -> None:
    """Background threads, such as the one that keeps snapshots fresh, hold sessions as long as the process lives."""
    with creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {creation.connection.ops.quote_name(name)} WITH (FORCE)")


DatabaseCreation._destroy_test_db = drop_with_its_sessions  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    if EMBEDDED:
        config.pluginmanager.register(EMBEDDED, "embedded-servers")


APART = {  # where tests start real processes: each group one after the other on one worker of pytest-xdist
    "trips": ("tests/trips/", "tests/crash/", "tests/chaos/", "tests/lab/"),
    "browser": ("tests/browser/",),
    "servers": ("tests/reach_platform/", "tests/benchmarks/"),
}


def group_of(nodeid: str) -> str | None:
    return next((name for name, places in APART.items() if nodeid.startswith(places)), None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first; without pytest-xdist that makes no difference."""
    order = {name: place for place, name in enumerate(APART)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid) or "", len(order)))


class Apart(LoadScopeScheduling):
    """A worker takes a group, or a single test, at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Apart:
    return Apart(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """What watches the database in the background must not do so when a test no longer lets anyone at it."""
    _stop_watching()
    try:
        return (yield)
    finally:
        _stop_watching()


def _stop_watching() -> None:
    if snapshots := sys.modules.get("routing.snapshot.cache"):
        snapshots.close()
