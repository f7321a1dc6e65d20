"""Callbacks' rows against the real database: told once, again on schedule, by hand, or given up."""

import datetime as dt
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from callbacks import services
from callbacks.messages import Due, NewCallback, Tried
from common import clock
from common.database import hot_cursor
from common.errors import NotFound, StateConflict
from common.ids import sibling, uuid7

SECOND = dt.timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _nothing_else_is_due() -> None:
    with hot_cursor() as cursor:
        cursor.execute("UPDATE callbacks_callback SET state = 'DELIVERED', due_at = NULL WHERE state = 'PENDING'")


def made(*, leased: bool = True, namespace: str = "n", **more: Any) -> Due:
    subject = uuid7()
    new = NewCallback(
        sibling(subject), subject, namespace, "shop", "https://a.example", None, "", b"{}", "standard", clock.now()
    )
    with hot_cursor() as cursor:
        due = services.create(cursor, [replace(new, **more)], leased=leased, now=clock.now())
    return due[0] if due else services.claim(clock.now(), 1)[0]


def tried(due: Due, **more: Any) -> Tried:
    fields = {"at": clock.now(), "took_ms": 10, "status": 500, "error": "500", "permanent": False, "answer": b"",
              "retry_after_s": None}  # fmt: skip
    return Tried(due, **{**fields, **more})


def row(due: Due) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM callbacks_callback WHERE id = %s", [due.id])
        names = [column.name for column in cursor.description or ()]
        return dict(zip(names, cursor.fetchone() or (), strict=True))


def test_a_leased_callback_is_nobody_elses_until_the_lease_lapses() -> None:
    due = made()
    assert (due.number, services.claim(clock.now(), 10)) == (1, [])
    [again] = services.claim(clock.now() + services.LEASE + SECOND, 10)
    assert (again.id, again.number, again.series) == (due.id, 2, 2)


def test_two_processes_that_look_at_once_share_what_is_due() -> None:
    with hot_cursor() as cursor:
        subjects = [uuid7() for _ in range(60)]
        new = [
            NewCallback(sibling(s), s, "n", "shop", "https://a.example", None, "", b"{}", "standard", clock.now())
            for s in subjects
        ]
        services.create(cursor, new, leased=False, now=clock.now())
    barrier = threading.Barrier(2)

    def look(_: int) -> list[uuid.UUID]:
        barrier.wait()
        try:
            return [due.id for due in services.claim(clock.now(), 100)]
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(look, range(2))
    assert not set(first) & set(second)
    assert {*first, *second, *(due.id for due in services.claim(clock.now(), 100))} == {one.id for one in new}


def test_a_delivery_ends_it() -> None:
    due = made()
    assert services.finish([tried(due, status=200, error=None)], clock.now()) == {due.id: "DELIVERED"}
    assert row(due)["due_at"] is None


def test_a_failure_is_tried_again_half_a_minute_later_with_the_same_id_and_body() -> None:
    due = made()
    now = clock.now()
    services.finish([tried(due, at=now)], now)
    assert services.claim(now + 26 * SECOND, 10) == []
    [again] = services.claim(now + 34 * SECOND, 10)
    assert (again.id, again.body, again.number) == (due.id, due.body, 2)


def test_an_overtaken_try_changes_nothing() -> None:
    due = made()
    [again] = services.claim(clock.now() + services.LEASE + SECOND, 10)
    assert services.finish([tried(due, status=200, error=None)], clock.now()) == {}
    assert services.finish([tried(again, status=200, error=None)], clock.now()) == {due.id: "DELIVERED"}


def test_a_gone_receiver_is_dead_at_once_and_can_be_told_again_by_hand() -> None:
    due = made()
    services.finish([tried(due, status=410, error="410 Gone")], clock.now())
    assert (row(due)["state"], row(due)["last_error"]) == ("DEAD", "410 Gone")
    services.redeliver(due.id, clock.now())
    [again] = services.claim(clock.now(), 10)
    assert (again.id, again.number, again.series) == (due.id, 2, 1)


def test_redelivery_is_refused_while_pending_or_where_there_is_none() -> None:
    due = made()
    for id, error in ((due.id, StateConflict), (None, StateConflict), (uuid.uuid4(), NotFound)):
        with pytest.raises(error):
            services.redeliver(id, clock.now())


def test_two_people_who_press_redeliver_begin_one_series() -> None:
    due = made()
    services.finish([tried(due, status=200, error=None)], clock.now())
    barrier = threading.Barrier(2)

    def press(_: int) -> bool:
        try:
            barrier.wait()
            services.redeliver(due.id, clock.now())
            return True
        except StateConflict:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(press, range(2))) == [False, True]


def test_dead_ones_are_redelivered_by_filter() -> None:
    mine, other = uuid.uuid4().hex, uuid.uuid4().hex
    dead = [made(namespace=name) for name in (mine, mine, other)]
    services.finish([tried(due, status=410, error="gone") for due in dead], clock.now())
    done = services.redeliver_matching(mine, client="shop", since=clock.now() - 60 * SECOND, now=clock.now())
    assert sorted(done) == sorted(due.id for due in dead[:2])
    assert row(dead[2])["state"] == "DEAD"


def test_tries_that_never_come_to_an_end_do_not_go_on_for_ever() -> None:
    due, now = made(), clock.now()
    for _ in range(5):
        now += services.LEASE + SECOND
        services.claim(now, 10)
    assert services.sweep(now + services.LEASE + SECOND) == [due.id]
    assert row(due)["state"] == "DEAD"


def test_a_receivers_odd_words_are_kept_as_text() -> None:
    due = made()
    services.finish([tried(due, error="bad\0\ud83d", answer=b"\x00\xff")], clock.now())
    assert "\0" not in row(due)["last_error"]


def newer(due: Due) -> Due:
    return made(subject_id=due.subject_id, id=sibling(due.subject_id), created_at=clock.now() + SECOND)


def test_an_older_message_is_superseded_once_a_newer_one_is_there() -> None:
    older = made()
    services.finish([tried(older)], clock.now())
    latest = newer(older)
    services.finish([tried(latest, status=200, error=None)], clock.now())
    assert services.claim(clock.now() + 60 * SECOND, 10) == []
    assert (row(older)["state"], row(older)["due_at"], row(older)["attempts"]) == ("SUPERSEDED", None, 1)
    assert row(older)["ended_at"] is not None


def test_the_newest_message_is_told_although_there_are_older_ones() -> None:
    older = made()
    latest = newer(older)
    services.finish([tried(latest)], clock.now())
    assert [due.id for due in services.claim(clock.now() + 60 * SECOND, 10)] == [latest.id]


def test_a_message_whose_newer_one_came_is_not_begun_anew() -> None:
    older, client = made(client="c-old", namespace="superseded"), "c-old"
    services.finish([tried(older, permanent=True)], clock.now())
    newer(older)
    with pytest.raises(StateConflict, match="newer"):
        services.redeliver(older.id, clock.now())
    assert services.redeliver_matching("superseded", client=client, now=clock.now()) == []
    assert row(older)["state"] == "DEAD"


def following(first: Due) -> uuid.UUID:
    """A message that is told besides the first one."""
    id, later = sibling(first.subject_id), clock.now() + SECOND
    new = NewCallback(id, first.subject_id, "n", "shop", "https://a.example", None, "", b"{}", "standard", later, True)
    with hot_cursor() as cursor:
        services.create(cursor, [new], leased=False, now=clock.now())
    return id


def test_what_follows_an_open_message_waits_for_its_end_and_takes_no_place() -> None:
    first = made()
    after = following(first)
    assert services.claim(clock.now(), 10) == []
    services.finish([tried(first)], clock.now())
    again = services.claim(clock.now() + 60 * SECOND, 10)
    assert [due.id for due in again] == [first.id]
    services.finish([tried(again[0], status=200, error=None)], clock.now())
    [due] = services.claim(clock.now() + 120 * SECOND, 10)
    assert (due.id, due.number) == (after, 1)


def test_what_follows_a_dead_message_is_told() -> None:
    first = made()
    after = following(first)
    services.finish([tried(first, permanent=True)], clock.now())
    assert [due.id for due in services.claim(clock.now(), 10)] == [after]


def told(first: Due, *, schedule: str = "progress", seconds: int = 1) -> Due:
    """A later message about the same subject."""
    return made(
        id=sibling(first.subject_id),
        subject_id=first.subject_id,
        schedule=schedule,
        created_at=clock.now() + seconds * SECOND,
    )


def test_what_is_told_on_the_way_never_takes_the_place_of_an_end() -> None:
    end = made()
    told(end)
    assert services.stale([end]) == set()
    services.finish([tried(end)], clock.now())
    assert end.id in {due.id for due in services.claim(clock.now() + 60 * SECOND, 10)}


def test_what_is_told_on_the_way_gives_way_to_anything_newer() -> None:
    first = made(schedule="progress")
    services.finish([tried(first)], clock.now())
    second = told(first)
    assert services.stale([first, second]) == {first.id}
    told(first, schedule="standard", seconds=2)
    assert services.stale([second]) == {second.id}
    services.claim(clock.now() + 60 * SECOND, 10)
    assert row(first)["state"] == "SUPERSEDED"
