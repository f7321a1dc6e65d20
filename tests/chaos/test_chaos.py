"""Whatever is killed, paused and cut while tasks flow: what was accepted ends, once, and is told."""

import pytest

from tests.chaos.run import run

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


def test_nothing_is_lost_and_nothing_is_twice_while_everything_is_killed():
    count = run(minutes=0.6, tasks=400, seed=5, say=print)
    print(count.text())  # noqa: T201
    assert count.found == {}
