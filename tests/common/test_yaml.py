"""YAML that says what it looks like."""

import time
from decimal import Decimal

import pytest

from common import yaml
from common.errors import MalformedYaml

BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(8)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("22:22", "22:22"),
        ("1:30", "1:30"),
        ("0123", "0123"),
        ("+5", "+5"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        (".5", ".5"),
        ("5.", "5."),
        ("'1'", "1"),
        ('"true"', "true"),
        ("~", None),
        ("", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-7", -7),
        ("1e3", 1000),
        ("1.5", Decimal("1.5")),
        ("1e-99999999999999999999", 0),
        ("١", "١"),
    ],
)
def test_a_scalar_is_what_it_looks_like(text, value):
    """Case 19."""
    read = yaml.parse(f"x: {text}".encode())["x"]
    assert (read, type(read) is bool) == (value, type(value) is bool)


def test_a_number_keeps_its_spelling():
    """Case 19."""
    read = yaml.parse(b"a: 1.10\nb: 1e3\n")
    assert (read["a"].source, read["b"].source) == ("1.10", "1e3")
    assert type(yaml.plain(read)["a"]) is Decimal


@pytest.mark.parametrize("key", ["on", "no", "'1'", "2024-01-01"])
def test_keys_that_look_like_other_types_elsewhere_are_text(key):
    """Case 19."""
    assert yaml.parse(f"{key}: x".encode()) == {key.strip("'"): "x"}


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T00:00:00Z", "2024-13-45"])
def test_dates_stay_as_written(text):
    """Cases 20 and 22."""
    assert yaml.parse(f"version: {text}".encode()) == {"version": text}


@pytest.mark.parametrize(
    "raw",
    [
        b"x: .inf",
        b"x: -.inf",
        b"x: .nan",
        b"x: 1e400",
        b"x: " + b"1" * 4301,
        b"k: !!binary aGk=",
        b"c: !!set {a}",
        b"x: !!python/object/apply:os.system [id]",
        b"x: ! a",
        b"x: !!str a",
        b"x: !mine {}",
        b"%TAG ! tag:x,2000:\n---\na: !x 1",
        b"1: a",
        b"null: b",
        b"true: c",
        b"1.5: d",
        b": e",
        b"? [a]\n: b",
        b"? {a: b}\n: c",
        b"x: &a [*a]",
        b"x: &a {b: *a}",
        b"a: &x {b: 1}\nc: {<<: *x}",
        b"a: {<<: {b: 1}}",
        b"a: &x 1",
        b"a: *x",
        BOMB,
        b"x: " + b"[" * 2000 + b"]" * 2000,
        b"[" * 100_000,
        b"{a: " * 100_000,
        b"- " * 100_000,
        b"x: " + b"[" * 64 + b"]" * 64,
        b"x: \0",
        b'x: "\\0"',
        b'x: "\\u0000"',
        b'x: "\\ud800"',
        b"x: \xff",
        b"x: \x01",
        "x: é".encode("utf-16"),
        "x: e".encode("utf-16-le"),
        "x: e".encode("utf-16-be"),
        "x: e".encode("utf-32"),
        b"\tx: 1",
        b"a: b: c",
        b"",
        b" \n",
        b"# only\n",
        b"scalar",
        b"- a",
        b"...",
        b"x: " + b"a" * 5_000_000,
        b"a: 1\na: 2",
        b"a: {b: 1, b: 1}",
        b"a: 1\n---\nb: 2",
        b"a: [1,2",
        b'a: "x',
        b"a: @x",
    ],
)
def test_everything_else_is_refused_with_a_place_and_at_once(raw):
    """Cases 3, 15, 19, 20, 21 and 22."""
    started = time.thread_time()
    with pytest.raises(MalformedYaml) as caught:
        yaml.parse(raw)
    assert time.thread_time() - started < 1
    assert caught.value.line >= 1
    assert caught.value.column >= 1


@pytest.mark.parametrize(
    ("raw", "line", "column"),
    [
        (b"a: 1\nb: &x 2", 2, 4),
        (b"a: 1\r\na: 2", 2, 1),
        (b"a: b: c", 1, 5),
        (b"a: 1\rb: \0", 2, 4),
        (b"\xef\xbb\xbfa: \xff", 1, 4),
    ],
)
def test_the_place_is_exact(raw, line, column):
    """Case 22."""
    with pytest.raises(MalformedYaml, match=f"at line {line}, column {column}"):
        yaml.parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfa: 1\nb: [x]\n",
        b"a: 1\r\nb: [x]\r\n",
        b"a: 1\rb: [x]\r",
        b"---\na: 1\t# tab\there\nb: [x]\n...\n",
        b'{"a":1,"b":["x"]}',
    ],
)
def test_a_mark_line_ends_and_comments_change_nothing(raw):
    """Case 22."""
    assert yaml.parse(raw) == {"a": 1, "b": ["x"]}


def test_63_levels_in_a_mapping_pass():
    """Case 15."""
    yaml.parse(b"x: " + b"[" * 63 + b"]" * 63)


def test_other_tops_pass_where_they_are_wanted():
    assert yaml.parse(b"- a", mapping=False) == ["a"]


def test_a_megabyte_takes_seconds_and_not_minutes():
    """Case 22."""
    started = time.thread_time()
    assert len(yaml.parse(b"".join(b"k%d: {a: 1, b: two}\n" % i for i in range(45_000)))) == 45_000
    assert time.thread_time() - started < 6
