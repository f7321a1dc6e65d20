"""CSV that a spreadsheet does not run."""

import csv
import io

import pytest

from common.tables import csv_lines


def read(lines):
    return list(csv.reader(io.StringIO(b"".join(lines).decode(), newline="")))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\uff1d1", "|x", "%x"])
def test_a_formula_becomes_text(text):
    assert read(csv_lines(["a"], [[text]])) == [["a"], ["'" + text]]


@pytest.mark.parametrize("text", ["plain", 'a"b', "a,b", "a\nb", "\u5de5\u5355", "a=b"])
def test_other_text_stays_as_it_is(text):
    assert read(csv_lines(["a"], [[text]])) == [["a"], [text]]


def test_numbers_stay_numbers_and_none_is_empty():
    assert read(csv_lines(["a", "b"], [[-1, None]])) == [["a", "b"], ["-1", ""]]


def test_lines_are_made_one_by_one():
    rows = iter([["a"], ["b"]])
    lines = csv_lines(["x"], rows)
    assert (next(lines), next(lines)) == (b"x\r\n", b"a\r\n")
    assert list(rows) == [["b"]]
