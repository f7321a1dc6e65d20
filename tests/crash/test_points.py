"""Whatever dies at whatever point of a task's trip: one end, told, and nothing done twice."""

import pytest

from tests.crash.points import POINTS, groups
from tests.crash.suite import HEADS, table

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
QUICK = tuple(point for point in POINTS if not point.slow)
OTHERS = groups(tuple(point for point in POINTS if point.slow))


def came_through(crash, points):
    walks = crash.walk(points)
    print(table(HEADS, [crash.row(walk) for walk in walks]))  # noqa: T201
    return [wrong for walk in walks for wrong in crash.wrongs(walk)]


def test_a_task_outlives_the_death_of_a_process_at_the_main_points_of_its_trip(crash):
    assert came_through(crash, QUICK) == []


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_a_task_outlives_the_death_of_a_process_at_all_the_other_points(crash, number):
    assert came_through(crash, OTHERS[number]) == []
