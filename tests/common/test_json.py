"""Strict JSON in, plain JSON out."""

import time
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import json
from common.errors import MalformedJson

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**300), max_value=10**300)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_is_written_reads_back_equal(value):
    assert json.same(json.parse(json.dumps(value)), value)


@pytest.mark.parametrize("raw", [b'{"x":1e400}', b'{"x":-1e400}', b'{"x":1e99999999999999999999}'])
def test_a_number_beyond_a_float_is_refused_by_name(raw):
    """Case 1."""
    with pytest.raises(MalformedJson, match="out of range at /x"):
        json.parse(raw)


def test_an_overflow_deep_inside_is_named_by_its_pointer():
    """Case 1."""
    with pytest.raises(MalformedJson, match="at /a/1/b~1c") as caught:
        json.parse(b'{"a":[1,{"b/c":1e400}]}')
    assert caught.value.extra == {"pointer": "/a/1/b~1c"}


@pytest.mark.parametrize("text", ["1e-400", "1e-99999999999999999999", "0e99999999999999999999", "-0.0"])
def test_what_a_float_takes_for_zero_is_zero(text):
    """Case 1."""
    assert json.parse(text.encode()) == 0


@pytest.mark.parametrize("raw", [b"NaN", b"[Infinity]", b'{"a":-Infinity}', b"1" * 4301])
def test_a_number_that_json_does_not_know_is_refused(raw):
    """Case 1."""
    with pytest.raises(MalformedJson):
        json.parse(raw)


def test_numbers_are_exact():
    assert json.parse(b"[1.10, 9007199254740993, 0.1]") == [Decimal("1.10"), 9007199254740993, Decimal("0.1")]
    assert json.parse(b"9" * 4300) == 10**4300 - 1


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (rb'{"a":"x\u0000y"}', "NUL .* at /a"),
        (rb'{"a":[{"k\u0000":1}]}', "NUL .* at /a/0/k"),
        (rb'"\u0000"', "NUL .* at the root"),
        (b'"\0"', "control character"),
    ],
)
def test_nul_is_refused_in_values_and_keys(raw, where):
    """Case 2."""
    with pytest.raises(MalformedJson, match=where):
        json.parse(raw)


@pytest.mark.parametrize("raw", [rb'{"t":"\ud83d"}', rb'{"t":"\ude00\ud83d"}', rb'{"\ud83d":1}', rb'{"t":"\uD83Dx"}'])
def test_half_a_surrogate_pair_is_refused(raw):
    """Case 3."""
    with pytest.raises(MalformedJson, match="surrogate"):
        json.parse(raw)


def test_a_whole_surrogate_pair_passes_and_its_bytes_can_be_sent_on():
    """Case 3."""
    raw = rb'{"payload":{"t":"\ud83d\ude00"}}'
    assert json.parse(raw) == {"payload": {"t": "😀"}}
    assert json.raw_fields(raw, ["payload"]) == {"payload": rb'{"t":"\ud83d\ude00"}'}


def test_an_escaped_backslash_before_u0000_is_only_text():
    assert json.parse(rb'"\\u0000"') == r"\u0000"


@pytest.mark.parametrize("depth", [65, 900, 1100, 20_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_over_64_is_refused_at_once(depth, opening, closing):
    """Case 15."""
    started = time.thread_time()
    with pytest.raises(MalformedJson, match="deeper than 64"):
        json.parse(opening * depth + b"1" + closing * depth)
    assert time.thread_time() - started < 0.5


@pytest.mark.parametrize("raw", [b"[" * 64 + b"]" * 64, b'["' + b"[{" * 500 + b'"]', rb'["\"[[[[' + b"[" * 100 + b'"]'])
def test_64_levels_and_brackets_in_text_pass(raw):
    """Case 15."""
    json.parse(raw)


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b'{"agent":"safe","agent":"admin"}', "/agent"),
        (b'{"p":[{"a":1,"a":1}]}', "/p/0/a"),
        (rb'{"ab":1,"\u0061b":2}', "/ab"),
    ],
)
def test_duplicate_keys_are_refused_at_any_depth(raw, where):
    """Case 55."""
    with pytest.raises(MalformedJson, match=f"duplicate key at {where}"):
        json.parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" \n",
        b"{",
        b"{} x",
        b"{}{}",
        b"{'a':1}",
        b'{"a":01}',
        b"[1,]",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"+1",
        b".5",
        b"1.",
        b'"\\x"',
        b'"a\nb"',
        b"nul",
        b"// x\n1",
        b"\x00",
    ],
)
def test_what_is_no_json_is_refused(raw):
    with pytest.raises(MalformedJson):
        json.parse(raw)


def test_a_syntax_error_names_line_and_column():
    with pytest.raises(MalformedJson, match="line 2, column 5"):
        json.parse(b'{"a":1,\n"b":,}')


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (b"1", b"1.0", True),
        (b"100", b"1e2", True),
        (b"9007199254740992", b"9007199254740993", False),
        (b"true", b"1", False),
        (b"false", b"0", False),
        (b"null", b"false", False),
        (b'{"a":1,"b":[1,2]}', b'{ "b" : [1.0,2], "a" : 1 }', True),
        (b"[1,2]", b"[2,1]", False),
        (b'{"a":null}', b"{}", False),
        (b'"1"', b"1", False),
        (b"[true]", b"[1]", False),
    ],
)
def test_equality_is_by_value(a, b, equal):
    """Case 5."""
    assert json.same(json.parse(a), json.parse(b)) is equal


def test_an_agents_answer_is_repaired_where_that_is_safe():
    """Cases 2, 3 and 18."""
    raw = b"\xef\xbb\xbf" + rb'{"out\u0000":"\u0000 \ud83d \ud83d\ude00"}'
    assert json.parse_lenient(raw) == {"out\ufffd": "\ufffd \ufffd 😀"}


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"x":1e400}', b"[" * 100_000, b'{"a":1,"a":2}', b"\xff", b'{"a":'])
def test_an_agents_answer_that_is_no_json_says_why(raw):
    """Cases 1, 15 and 18."""
    with pytest.raises(json.BadAnswer, match=r"\w"):
        json.parse_lenient(raw)


def test_raw_members_and_items_are_the_very_bytes():
    raw = b'{ "tasks" : [ {"a" : 1.0} , 2 ,"x"] , "p\\u0061yload":{"n":1.50 } }'
    assert json.raw_fields(raw, ["payload", "absent"]) == {"payload": b'{"n":1.50 }'}
    assert json.raw_items(raw, "tasks") == [b'{"a" : 1.0}', b"2", b'"x"']


def test_dumps_writes_times_ids_exact_numbers_and_raw_json():
    value = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 678999, UTC),
        "id": UUID(int=1),
        "n": [Decimal("1.10"), 2**70],
        "raw": msgspec.Raw(b'{"x": 1.0}'),
    }
    assert json.dumps(value) == (
        b'{"at":"2026-01-02T03:04:05.678Z","id":"00000000-0000-0000-0000-000000000001",'
        b'"n":[1.10,1180591620717411303424],"raw":{"x": 1.0}}'
    )


def test_dumps_survives_half_a_surrogate_pair():
    """Case 3."""
    assert json.dumps({"a\ud800": "b\udfff\0"}) == b'{"a\xef\xbf\xbd":"b\xef\xbf\xbd\xef\xbf\xbd"}'


def test_clean_text_shows_what_cannot_be_shown():
    """Case 2."""
    assert json.clean_text("a\0b\x1b\ud800\tc\n", 100) == "a\ufffdb\ufffd\ufffd\tc\n"
    assert json.clean_text("abcdef", 4) == "abc…"
