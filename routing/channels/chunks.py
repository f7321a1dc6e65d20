"""Answers that come in chunks: server-sent events (the data of each), or JSON lines. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from common.encoding import clean_text, storable
from common.json import BadAnswer, parse_lenient

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
ENDS = ("SUCCEEDED", "FAILED")
KEPT_BYTES = 64 * 1024  # of a stream that broke off, for the error's details
DONE = b"[DONE]"  # what some services say after their last chunk


def kind_of(headers: Mapping[str, str]) -> str | None:
    """SSE or NDJSON, None for an answer in one piece; `headers` find their values in any case of the name."""
    found = headers.get("Content-Type", "").split(";")[0].strip().lower()
    return found if found in (SSE, NDJSON) else None


class Chunks:
    """Cuts a stream into its chunks, wherever its parts were cut."""

    def __init__(self, kind: str):
        self._is_sse = kind == SSE
        self._rest = b""
        self._event, self._data = "", list[bytes]()

    def feed(self, part: bytes) -> list[bytes]:
        """The chunks that this part of the stream completes."""
        return [data for _, data in self.events(part) if data.strip() and data.strip() != DONE]

    def events(self, part: bytes) -> list[tuple[str, bytes]]:
        """All that this part completes, each with its event's name; also ends that carry no data."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [found for line in lines if (found := self._line(line.removesuffix(b"\r"))) is not None]

    def close(self) -> list[bytes]:
        """What was left when the stream ended without a line end."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not self._is_sse:
            return "", line
        if not line:
            found = self._event, b"\n".join(self._data)
            self._event, self._data = "", []
            return found if any(found) else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.decode("utf-8", "replace").strip()
        return None


def chunks_of(kind: str, body: bytes) -> list[bytes]:
    """All chunks of a whole stream."""
    cut = Chunks(kind)
    return [*cut.feed(body), *cut.close()]


def value_of(chunk: bytes) -> Any:
    """The chunk as JSON, or as the text that it is; fit to be stored."""
    try:
        return storable(parse_lenient(chunk))
    except BadAnswer:
        return clean_text(chunk.decode("utf-8", "replace"), KEPT_BYTES)


def is_result(value: Any) -> bool:
    """Whether this chunk says that the work is over."""
    return isinstance(value, dict) and value.get("status") in ENDS


def kept(chunks: Sequence[bytes]) -> dict[str, Any]:
    """The part of a stream that came, from its beginning, for the details of an error."""
    values: list[Any] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > KEPT_BYTES:
            return {"partial": values, "partialTruncated": True}
        values.append(value_of(chunk))
    return {"partial": values}
