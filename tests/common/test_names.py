"""Names whose servers do not answer hold up no others."""

import asyncio
import socket
import threading

import pytest

from common.names import AT_A_TIME, Names


@pytest.fixture
def hanging(monkeypatch):
    """Names that begin with `dead` are not answered for before the end of the test; `away.example` has no address."""
    over, asked = threading.Event(), []

    def look_up(host, port, **_):
        asked.append(host)
        if host.startswith("dead"):
            over.wait(60)
        if host == "away.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield asked
    over.set()


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 30))


def test_a_name_that_is_known_is_found_while_hundreds_of_others_hang(hanging):
    async def scenario():
        names = Names()
        await names.resolve("well.example", 443)
        stuck = [asyncio.ensure_future(names.resolve(f"dead-{number}.example", 443)) for number in range(500)]
        while len(hanging) < 1 + AT_A_TIME["new"]:
            await asyncio.sleep(0.001)
        [found] = await names.resolve("well.example", 443)
        assert not any(one.done() for one in stuck)
        return found["host"], found["port"], len(hanging)

    assert run(scenario()) == ("192.0.2.1", 443, 2 + AT_A_TIME["new"])


def test_a_name_that_took_long_does_not_take_the_place_of_a_new_one(hanging):
    async def scenario():
        names = Names()
        for number in range(100):
            names._learn(f"dead-{number}.example", "slow")
        stuck = [asyncio.ensure_future(names.resolve(f"dead-{number}.example")) for number in range(100)]
        await asyncio.sleep(0)
        [found] = await names.resolve("new.example")
        return found["hostname"], len(stuck)

    assert run(scenario()) == ("new.example", 100)


def test_a_name_without_an_address_says_so(hanging):
    with pytest.raises(socket.gaierror):
        run(Names().resolve("away.example"))


def test_names_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("common.names.REMEMBERED", 2)
    names = Names()
    for host in ("a", "b", "c"):
        names._learn(host, "quick")
    assert list(names._known) == ["b", "c"]
