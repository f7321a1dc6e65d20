"""How an attempt reaches its agent: one file a channel, one line in the table."""

from collections.abc import Callable

from common.outbound import Outbound
from routing.channels.base import Channel, Sending
from routing.channels.function import FunctionChannel
from routing.channels.http import HttpChannel
from routing.channels.stream import StreamChannel
from routing.channels.websocket import WebsocketChannel

REGISTRY: dict[str, Callable[[Outbound], Channel]] = {
    "http": HttpChannel,
    "websocket": WebsocketChannel,
    "stream": StreamChannel,
    "function": FunctionChannel,
}

__all__ = ["REGISTRY", "Channel", "Sending"]
