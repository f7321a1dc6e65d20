"""How an attempt reaches its agent: one file a channel, one line in the table."""

from collections.abc import Callable

from common.outbound import Outbound
from routing.channels.base import Channel, Sending
from routing.channels.http import HttpChannel

REGISTRY: dict[str, Callable[[Outbound], Channel]] = {
    "http": HttpChannel,
}

__all__ = ["REGISTRY", "Channel", "Sending"]
