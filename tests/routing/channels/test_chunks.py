"""Streams are cut into chunks wherever their parts were cut."""

import pytest

from routing.channels.chunks import NDJSON, SSE, Chunks, chunks_of, kept, kind_of, value_of

EVENTS = 'data: {"t": "é"}\r\n\r\n: still here\n\nevent: x\nid: 1\ndata: {"a":\ndata: 1}\n\ndata: [DONE]\n\n'.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_events_are_the_same_however_the_stream_is_cut(size: int) -> None:
    cut = Chunks(SSE)
    found = [chunk for at in range(0, len(EVENTS), size) for chunk in cut.feed(EVENTS[at : at + size])]
    assert [value_of(chunk) for chunk in found] == [{"t": "é"}, {"a": 1}]
    assert cut.close() == []


def test_a_last_line_without_its_end_counts() -> None:
    assert chunks_of(NDJSON, b'{"a": 1}\r\n\n{"b": 2}') == [b'{"a": 1}', b'{"b": 2}']
    assert chunks_of(SSE, b"data: 1\n\ndata:2") == [b"1", b"2"]


def test_what_is_no_json_is_text() -> None:
    assert [value_of(chunk) for chunk in (b"hel", b"\xff\x00", b'{"x": NaN}')] == ["hel", "��", '{"x": NaN}']


def test_the_part_that_is_kept_is_bounded() -> None:
    assert kept([b"1", b"2"]) == {"partial": [1, 2]}
    assert kept([b"1", b"x" * 70_000, b"2"]) == {"partial": [1], "partialTruncated": True}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("text/event-stream; charset=utf-8", SSE),
        ("Application/X-NDJSON", NDJSON),
        ("application/json", None),
        ("", None),
    ],
)
def test_the_content_type_tells(given: str, kind: str | None) -> None:
    assert kind_of({"Content-Type": given}) == kind
