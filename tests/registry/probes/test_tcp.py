import asyncio
import socket

from tests.registry.probes.probing import against, at, probed


def test_an_open_port_is_healthy_even_if_nobody_answers():
    assert against(lambda _: None, "tcp").ok is True


def test_a_closed_port_is_unhealthy_and_says_so():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        result = at(f"http://127.0.0.1:{free.getsockname()[1]}/", "tcp")
    assert (result.ok, result.reason) == (False, "UNREACHABLE: nothing listens there")


def test_an_address_that_policy_forbids_is_not_connected_to():
    result = at("http://192.168.0.1:80/", "tcp")
    assert result.ok is False
    assert result.reason.startswith("BLOCKED")


def test_a_name_that_leads_to_a_forbidden_address_is_not_connected_to(monkeypatch):
    async def trip():
        loop = asyncio.get_running_loop()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))]
        monkeypatch.setattr(loop, "getaddrinfo", lambda *_, **__: asyncio.sleep(0, found))
        return await probed("tcp", "http://agent.example/")

    assert asyncio.run(trip()).reason.startswith("BLOCKED")


def test_a_name_that_does_not_resolve_is_unhealthy():
    assert at("http://no-such-name.invalid/", "tcp").reason == "UNREACHABLE: the name does not resolve"
