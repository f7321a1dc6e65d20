"""Ids and times."""

import json
import os
import threading
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import clock, ids
from common.signing import new_nonce

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ID = "01a22afd-29c9-727e-9f9b-b899a9c4419d"


def test_a_uuid7_is_one_by_the_book():
    id = ids.uuid7()
    assert (id.version, id.variant) == (7, uuid.RFC_4122)
    assert abs(ids.time_of(id) - clock.now()) < timedelta(seconds=1)


def test_ids_rise_within_a_millisecond_and_over_threads():
    made = []
    threads = [threading.Thread(target=lambda: made.append([ids.uuid7() for _ in range(5000)])) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(batch == sorted(batch) for batch in made)
    assert len({id for batch in made for id in batch}) == 20_000


def test_ids_of_one_given_moment_rise_and_stay_in_it():
    made = [ids.uuid7(AT) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {ids.time_of(id) for id in made} == {AT.replace(microsecond=678000)}


def test_a_moment_in_the_future_does_not_move_the_clock_of_others():
    ids.uuid7(datetime(2100, 1, 1, tzinfo=UTC))
    assert ids.time_of(ids.uuid7()).year < 2100


def test_a_sibling_shares_the_milliseconds():
    id = ids.uuid7()
    other = ids.sibling(id)
    assert (other.version, other.variant, ids.time_of(other)) == (7, uuid.RFC_4122, ids.time_of(id))
    assert other != id


def test_the_floor_is_the_lowest_id_of_its_millisecond():
    assert ids.floor_id(AT) <= ids.uuid7(AT) < ids.floor_id(AT + timedelta(milliseconds=1))
    assert (ids.floor_id(AT).version, ids.time_of(ids.floor_id(AT))) == (7, AT.replace(microsecond=678000))


def ids_made_by_a_forked_child(id: uuid.UUID) -> list[str]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        made = [ids.sibling(id), ids.uuid7(AT), ids.new_trace_id(), ids.random_hex(16), new_nonce()]
        os.write(writer, json.dumps([str(one) for one in made]).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return json.load(pipe)


def test_forked_processes_make_different_ids():
    id = ids.uuid7(AT)
    first, second = ids_made_by_a_forked_child(id), ids_made_by_a_forked_child(id)
    assert len(first) == 5
    assert not set(first) & set(second)


def test_random_digits_are_as_many_as_asked_for():
    assert {len(ids.random_hex(16)) for _ in range(2000)} == {16}


@pytest.mark.parametrize("text", [str(uuid.UUID(int=2**127)), ID])
def test_the_canonical_spelling_of_an_id_is_read(text):
    """Case 32."""
    assert ids.parse_id(text) == uuid.UUID(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * 32,
        "a" * 36,
        f"{{{ID}}}",
        ID.upper(),
        f"urn:uuid:{ID}",
        f" {ID}",
        f"{ID}\n",
        "１" * 36,
        None,
        5,
        b"x",
    ],
)
def test_any_other_spelling_of_an_id_is_none(text):
    """Case 32."""
    assert ids.parse_id(text) is None


@given(st.text(min_size=1))
def test_any_name_of_a_trace_has_one_trace_id(text):
    found = ids.trace_id_of(text)
    assert ids.trace_id_of(text) == found
    assert ids.parse_traceparent(ids.traceparent(found))[0] == found


def test_a_trace_id_stands_for_itself_and_other_names_for_their_hash():
    assert ids.trace_id_of(TRACE) == TRACE
    assert ids.trace_id_of("order-1") == "0bafe22156d2698c143b86040446d366"
    assert ids.trace_id_of("0" * 32) != "0" * 32
    assert ids.trace_id_of(TRACE.upper()) != TRACE


def test_a_traceparent_is_read():
    assert ids.parse_traceparent(f"00-{TRACE}-{SPAN}-01") == (TRACE, SPAN)
    assert ids.parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-comes-later") == (TRACE, SPAN)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-x",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01x",
    ],
)
def test_a_broken_traceparent_is_none(text):
    assert ids.parse_traceparent(text) is None


def test_times_are_written_in_utc_with_three_decimals_cut():
    assert clock.rfc3339(AT.astimezone(timezone(timedelta(hours=8)))) == "2026-01-02T03:04:05.678Z"
    assert clock.rfc3339(AT.replace(microsecond=0)) == "2026-01-02T03:04:05.000Z"
    assert clock.rfc3339(None) is None
    with pytest.raises(ValueError, match="zone"):
        clock.rfc3339(AT.replace(tzinfo=None))


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_written_reads_back_to_the_millisecond(at):
    assert clock.parse_time(clock.rfc3339(at)) == at.replace(microsecond=at.microsecond // 1000 * 1000)
    assert clock.millis(at) == clock.millis(clock.parse_time(clock.rfc3339(at)))


@pytest.mark.parametrize(
    "text", ["2026-01-02T11:04:05.678901+08:00", "2026-01-02t03:04:05.6789019z", "2026-01-01 19:04:05.678901-08:00"]
)
def test_an_offset_is_understood(text):
    assert clock.parse_time(text) == AT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04Z",
        "2026-13-02T03:04:05Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:60Z",
        "1767323045",
        "２026-01-02T03:04:05Z",
        "2026-01-02T03:04:05+24:00",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-01:00",
        "2026-W01-1T03:04:05Z",
        " 2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05Z\n",
        None,
        5,
    ],
)
def test_what_is_no_moment_is_refused(text):
    """Case 36."""
    with pytest.raises(ValueError, match=r"\w"):
        clock.parse_time(text)
