"""By which channel an instance is given a task: pushed by one of the table's channels, or fetched by itself."""

from routing.snapshot.model import AgentView, InstanceView

HTTP, PULL, STREAM, WEBSOCKET, FUNCTION = "http", "pull", "stream", "websocket", "function"
BATCH, INTERACTIVE = "batch", "interactive"
UNADDRESSED = (PULL, STREAM, FUNCTION)  # need no invoke address
PARTED = (PULL, STREAM)  # nobody holds a connection from the send on: without a receipt in time it is lost


def channel_of(agent: AgentView, instance: InstanceView, delivery: str | None = None) -> str:
    """The channel for a task whose `metadata.delivery` is this.

    Batch work is pulled where that is offered, interactive work pushed; else the instance's own preference counts, if
    its manifest lists it, then the manifest's order. An instance without an address is reached by a channel that needs
    none, one with a websocket's address by that.
    """
    offered = [name for name in agent.channels if _fits(name, instance.invoke_url)]
    if not offered:
        return WEBSOCKET if _is_websocket(instance.invoke_url) else HTTP
    wanted = [name for name in offered if _suits(name, delivery)] or offered
    return instance.prefer_channel if instance.prefer_channel in wanted else wanted[0]


def pulls(agent: AgentView) -> bool:
    """Whether its instances may fetch tasks."""
    return PULL in agent.channels


def is_reachable(agent: AgentView, instance: InstanceView) -> bool:
    """Whether there is any way to it at all."""
    return bool(instance.invoke_url) or any(name in UNADDRESSED for name in agent.channels)


def _fits(channel: str, address: str) -> bool:
    if channel == HTTP:
        return bool(address) and not _is_websocket(address)
    return channel in UNADDRESSED or (channel == WEBSOCKET and bool(address))


def _is_websocket(address: str) -> bool:
    return address[:2].lower() == "ws"


def _suits(channel: str, delivery: str | None) -> bool:
    if delivery == BATCH:
        return channel == PULL
    return delivery != INTERACTIVE or channel != PULL
