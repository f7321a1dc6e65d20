"""Which channel an instance is given a task by: a table."""

import pytest

from routing.channel_choice import channel_of
from routing.snapshot import AgentView, InstanceView


@pytest.mark.parametrize(
    ("channels", "prefer", "address", "delivery", "chosen"),
    [
        (("http",), "", "http://a/", None, "http"),
        (("http", "pull"), "", "http://a/", None, "http"),
        (("pull", "http"), "", "http://a/", None, "pull"),
        (("http", "pull"), "pull", "http://a/", None, "pull"),
        (("http",), "pull", "http://a/", None, "http"),
        (("http", "pull"), "", "http://a/", "batch", "pull"),
        (("http", "pull"), "http", "http://a/", "batch", "pull"),
        (("pull", "http"), "pull", "http://a/", "interactive", "http"),
        (("pull",), "", "http://a/", "interactive", "pull"),
        (("http", "pull"), "", "", "interactive", "pull"),
        (("a2a",), "", "http://a/", None, "http"),
        (("function",), "", "", None, "function"),
        (("stream", "http"), "", "http://a/", "batch", "stream"),
        (("http",), "", "ws://a/", None, "websocket"),
        (("http", "websocket"), "http", "WSS://a/", None, "websocket"),
        (("websocket",), "", "", None, "http"),
    ],
)
def test_the_channel_follows_the_kind_of_work_then_the_instance_then_the_manifest(
    channels, prefer, address, delivery, chosen
):
    agent = AgentView("a", channels=channels)
    assert channel_of(agent, InstanceView("i", "a", address, prefer_channel=prefer), delivery) == chosen
