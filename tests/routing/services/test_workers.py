"""Who may be taken for dead, and by whom."""

import time
import uuid

import pytest

from routing.services import workers
from tests.routing.services.world import rows


def steady_at(*moments: float) -> bool:
    """Whether who heard from the database at these moments may judge at the last of them."""
    contact = workers.Contact()
    for moment in moments:
        contact.note(moment)
    return contact.is_steady(moments[-1])


@pytest.mark.parametrize(
    ("moments", "steady"),
    [
        ((0.0,), False),
        ((0.0, 5.0), False),
        ((0.0, 5.0, 10.0), True),
        ((0.0, 5.0, 10.0, 18.0), False),
        ((0.0, 5.0, 10.0, 18.0, 23.0, 27.0), False),
        ((0.0, 5.0, 10.0, 18.0, 23.0, 28.0), True),
    ],
)
def test_only_ten_seconds_in_touch_without_a_gap_give_the_right_to_judge(moments, steady):
    assert steady_at(*moments) is steady


def test_silence_takes_the_right_away():
    contact = workers.Contact()
    for moment in (0.0, 5.0, 10.0):
        contact.note(moment)
    assert not contact.is_steady(10.0 + workers.GAP_S + 0.1)


@pytest.mark.parametrize(("silent_s", "judged"), [(1, True), (20, False)])
def test_an_answer_that_was_long_under_way_condemns_nobody(silent_s, judged, monkeypatch):
    monkeypatch.setattr(workers, "RESTART_GRACE_S", 0)
    monkeypatch.setattr(workers, "contact", workers.Contact())
    for ago in range(40, silent_s - 1, -1):
        workers.contact.note(time.monotonic() - ago)
    boot = uuid.uuid4()
    rows(
        "INSERT INTO routing_worker (boot_id, node, started_at, expires_at, inflight)"
        " VALUES (%s, 'x', now(), now() - interval '1 minute', 0) RETURNING 1",
        boot,
    )
    assert (boot in workers.dead()) is judged
