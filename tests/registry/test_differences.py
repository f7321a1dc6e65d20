import pytest

from registry.differences import Changed, changed, lines, text_diff


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": 2}, [Changed("a", "1", "2")]),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, [Changed("a.b", "x", "y")]),
        ({"a": 1}, {}, [Changed("a", "1", None)]),
        ({}, {"a": None}, [Changed("a", None, "null")]),
        ({"t": ["x"]}, {"t": ["x", "y"]}, [Changed("t", '["x"]', '["x", "y"]')]),
        ({"t": {"a": 1}}, {"t": [1]}, [Changed("t", '{"a": 1}', "[1]")]),
    ],
)
def test_what_differs_is_told_by_its_place(before, after, expected):
    assert changed(before, after) == expected


def test_named_things_are_compared_by_name_wherever_they_stand():
    before = {"capabilities": [{"name": "a", "n": 1}, {"name": "b"}]}
    after = {"capabilities": [{"name": "c"}, {"name": "a", "n": 2}]}
    assert changed(before, after) == [
        Changed("capabilities[c]", None, '{"name": "c"}'),
        Changed("capabilities[a].n", "1", "2"),
        Changed("capabilities[b]", '{"name": "b"}', None),
    ]


def test_things_with_the_same_name_are_compared_as_a_whole():
    assert len(changed([{"name": "a"}, {"name": "a"}], [{"name": "a"}])) == 1


def test_the_lines_of_a_text_know_what_they_are():
    found = lines(text_diff({"a": 1, "b": 2}, {"a": 1, "b": 3}, "r1", "r2"))
    assert [(line.kind, line.text.strip()) for line in found if line.kind in ("added", "removed")] == [
        ("removed", '-  "b": 2'), ("added", '+  "b": 3'),
    ]  # fmt: skip
    assert lines("") == []
