"""By which channel an instance is given a task: pushed by one of the table's channels, or fetched by itself."""

from routing.snapshot.model import AgentView, InstanceView

HTTP, PULL = "http", "pull"
BATCH, INTERACTIVE = "batch", "interactive"
PUSHED = (HTTP,)  # what this platform can send by; a channel in the table belongs here too


def channel_of(agent: AgentView, instance: InstanceView, delivery: str | None = None) -> str:
    """The channel for a task whose `metadata.delivery` is this.

    Batch work is pulled where that is offered, interactive work pushed; else the instance's own preference counts, if
    its manifest lists it, then the manifest's order. An instance without an address can only pull.
    """
    offered = [name for name in agent.channels if name == PULL or (name in PUSHED and instance.invoke_url)]
    if not offered:
        return HTTP
    wanted = [name for name in offered if _suits(name, delivery)] or offered
    return instance.prefer_channel if instance.prefer_channel in wanted else wanted[0]


def pulls(agent: AgentView) -> bool:
    """Whether its instances may fetch tasks."""
    return PULL in agent.channels


def _suits(channel: str, delivery: str | None) -> bool:
    if delivery == BATCH:
        return channel == PULL
    return delivery != INTERACTIVE or channel != PULL
