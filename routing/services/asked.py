"""What a stored request asks to be told, read without touching its payload; its token is encrypted at rest."""

import msgspec

from callbacks import topics
from common.json import dumps, raw_fields
from common.secrets import decrypt, encrypt


class CallbackAsk(msgspec.Struct, rename="camel"):
    """The `callback` member of a request."""

    type: str
    url: str | None = None
    topic: str | None = None
    auth_token: str | None = None  # as stored: encrypted
    events: tuple[str, ...] = ("final",)


class _Request(msgspec.Struct):
    callback: CallbackAsk | None = None


_decoder = msgspec.json.Decoder(_Request)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def callback_ask(request: bytes) -> CallbackAsk | None:
    """The callback that the stored request asks for."""
    return _decoder.decode(request).callback if b'"callback"' in request else None


def receiver(ask: CallbackAsk) -> str | None:
    """The address that callbacks go to: a URL, or a stream's."""
    return topics.address(ask.topic) if ask.type == "stream" and ask.topic else ask.url


def sealed(request: bytes) -> bytes:
    """The request for storing: byte for byte, but for a callback's token, which is encrypted."""
    ask = callback_ask(request)
    if ask is None or ask.auth_token is None:
        return request
    return _with_token(request, encrypt(ask.auth_token).decode())


def opened(request: bytes) -> bytes:
    """A stored request as it was sent; raises ValueError when its token was encrypted under another key."""
    ask = callback_ask(request)
    if ask is None or ask.auth_token is None:
        return request
    return _with_token(request, decrypt(ask.auth_token.encode()))


def _with_token(request: bytes, token: str) -> bytes:
    members = _members.decode(request)
    callback = _members.decode(raw_fields(request, ("callback",))["callback"])
    return dumps({**members, "callback": msgspec.Raw(dumps({**callback, "authToken": token}))})
