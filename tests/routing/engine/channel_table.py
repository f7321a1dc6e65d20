"""Channel × behaviour, as docs/channels.md shows it; a dash says that the channel has no such thing.

`python -m tests.routing.engine.channel_table` prints it.
"""

import sys

CHANNELS = ("http", "pull", "stream", "websocket", "function")
ROWS: dict[str, tuple[str, ...]] = {
    "receipt": ("202", "`…/receipt` within 30 s", "`…/receipt` within 30 s", "message `receipt`", "its thread begins"),
    "result": ("answer, `…/result`, status address", "`…/result`", "`…/result`", "message `result`", "what it returns"),
    "failure": ("`FAILED`", "`FAILED`", "`FAILED`", "`FAILED`", "`FAILED`; an exception is INTERNAL_ERROR"),
    "refusal": ("4xx", "`FAILED`, REJECTED", "`FAILED`, REJECTED", "handshake 4xx", "`FAILED`, not retryable"),
    "retry-after": ("429, 503", "–", "–", "handshake 429, 503", "–"),
    "progress": ("`…/progress`", "`…/progress`", "`…/progress`", "message `progress`", "`call.progress()`"),
    "chunks": ("SSE, NDJSON", "–", "–", "message `chunk`", "`call.chunk()`"),
    "cancel": (
        "address; else closed, or 409", "address; 409", "unread: withdrawn; address; 409",
        "message `cancel`, closed; address", "`call.is_over`",
    ),
    "timeout": ("closed", "409", "409", "message `cancel`, closed", "`call.is_over`; the thread goes on"),
    "lost agent": (
        "broken connection: MAYBE_RAN", "no receipt: MAYBE_RAN; after it –", "unread: NOT_SENT; read: MAYBE_RAN",
        "close, no pong: MAYBE_RAN", "–, it dies with its worker",
    ),
    "duplicate result": ("changes nothing", "changes nothing", "changes nothing", "–, closed by then", "–"),
    "late result": ("by `…/result`", "by `…/result`", "by `…/result`", "by `…/result`", "what it returns then"),
}  # fmt: skip


def markdown() -> str:
    """The table."""
    lines = ["| | " + " | ".join(CHANNELS) + " |", "|---" * (len(CHANNELS) + 1) + "|"]
    lines += [f"| {behaviour} | " + " | ".join(cells) + " |" for behaviour, cells in ROWS.items()]
    return "\n".join(lines)


def has(channel: str, behaviour: str) -> bool:
    return not ROWS[behaviour][CHANNELS.index(channel)].startswith("–")


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
