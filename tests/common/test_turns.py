"""Places for tries: by temper, in turn, and never all of them for those that hang."""

import asyncio

import pytest

from common import turns as module
from common.turns import HANGING, NEW, QUICK, Turns, receiver_of

SHOP = "https://shop.example/cb"


def told(turns, *urls, hung=False):
    """Each of these receivers has had a try that was over soon, or hung."""
    for url in urls:
        turn = turns._begin(receiver_of(url), turns.temper_of(receiver_of(url)))
        turn._timer.cancel()
        turns.ended(turn, hung=hung)


async def taken(turns, *urls, patience_s=0.0):
    """Who of them got a place."""
    found = await asyncio.gather(*(turns.take(receiver_of(url), patience_s) for url in urls))
    return [turn for turn in found if turn is not None]


def run(scenario):
    """Run it with time enough for everything but a try that is meant to hang."""
    return asyncio.run(asyncio.wait_for(scenario, 60))


def paths(count, host="gate.example"):
    return [f"https://{host}/tenant/{number}" for number in range(count)]


@pytest.fixture(autouse=True)
def _nobody_hangs_by_the_clock(monkeypatch):
    monkeypatch.setattr(module, "SLOW_S", 3600.0)


def test_a_receiver_is_an_address_without_its_query_and_a_topic_one_of_its_own():
    assert receiver_of(f"{SHOP}?task=1") == receiver_of(f"{SHOP}?task=2#top")
    assert receiver_of(SHOP).host == "shop.example"
    assert receiver_of("stream:orders") != receiver_of("stream:refunds")


def test_a_new_receiver_gets_one_try_and_once_that_was_quick_all_of_its_places():
    async def scenario():
        turns = Turns()
        [first, *more] = await taken(turns, *[SHOP] * 30)
        waiting = asyncio.gather(*(turns.take(receiver_of(SHOP), 60) for _ in range(19)))
        await asyncio.sleep(0)
        turns.ended(first, hung=False)
        return more, await waiting, await taken(turns, SHOP, SHOP)

    more, rest, over = run(scenario())
    assert (more, len([turn for turn in rest if turn]), len(over)) == ([], 19, 1)


def test_whoever_hangs_has_fewer_places_the_more_of_them_there_are():
    async def scenario(others):
        turns = Turns()
        told(turns, SHOP, *paths(others), hung=True)
        await taken(turns, *paths(others))
        return len(await taken(turns, *[SHOP] * 30))

    assert [run(scenario(others)) for others in (0, 10, module.HANGING_FEW)] == [20, 20, 2]


def test_a_thousand_that_hang_leave_quick_and_new_ones_their_places():
    async def scenario():
        turns = Turns()
        hanging = paths(module.HANGING_IN_ALL + 50)
        told(turns, *hanging, hung=True)
        told(turns, SHOP)
        return len(await taken(turns, *hanging)), len(await taken(turns, *[SHOP] * 30, "https://new.example/"))

    assert run(scenario()) == (module.HANGING_IN_ALL, 21)


def test_a_new_receiver_is_told_although_five_hundred_others_of_its_host_hang():
    async def scenario():
        turns = Turns()
        assert len(await taken(turns, *paths(500))) == 500
        return len(await taken(turns, "https://gate.example/well"))

    assert run(scenario()) == 1


def test_a_try_that_hangs_leaves_its_place_to_the_next_of_its_host(monkeypatch):
    monkeypatch.setattr(module, "SLOW_S", 0.05)
    monkeypatch.setattr(module, "FRESH_S", 0.0)

    async def scenario():
        turns, hanging, well = Turns(per_host=1), *paths(2)
        told(turns, hanging, well)
        [stuck] = await taken(turns, hanging)
        [next_one] = await taken(turns, well, patience_s=50)
        return stuck.temper, next_one.receiver, turns.temper_of(receiver_of(hanging))

    assert run(scenario()) == (HANGING, receiver_of(paths(2)[1]), HANGING)


def test_a_receiver_that_has_just_answered_another_does_not_hang_for_one_slow_try():
    async def scenario():
        turns = Turns()
        told(turns, SHOP)
        [slow] = await taken(turns, SHOP)
        turns.hung(slow)
        return turns.temper_of(receiver_of(SHOP)), len(await taken(turns, *[SHOP] * 30))

    assert run(scenario()) == (QUICK, 20)


def test_who_hangs_does_not_wait_in_line():
    async def scenario():
        turns = Turns(per_host=1)
        told(turns, SHOP, hung=True)
        first = await taken(turns, SHOP, SHOP)
        return len(first), await turns.take(receiver_of(SHOP), 3600), turns.waiting

    assert run(scenario()) == (2, None, 0)


def test_whoever_waits_when_its_receiver_begins_to_hang_is_told_so():
    async def scenario():
        turns = Turns(per_host=1)
        [first] = await taken(turns, SHOP)
        waiting = asyncio.gather(*(turns.take(receiver_of(SHOP), 3600) for _ in range(4)))
        await asyncio.sleep(0)
        turns.hung(first)
        return [turn is not None for turn in await waiting]

    assert run(scenario()) == [True, False, False, False]


def test_receivers_of_a_host_take_turns():
    async def scenario():
        turns, (busy, other) = Turns(per_host=1), paths(2)
        told(turns, busy, other)
        [now] = await taken(turns, busy)
        order = []

        async def one(url):
            turn = await turns.take(receiver_of(url), 3600)
            order.append(url)
            turn.end(answered=True)

        waiting = asyncio.gather(*(one(url) for url in [busy] * 5 + [other]))
        await asyncio.sleep(0)
        turns.ended(now, hung=False)
        await waiting
        return order.index(other), turns.waiting, turns._lines

    assert run(scenario()) == (1, 0, {})


def test_those_without_a_place_come_again_one_after_the_other_and_not_for_ever_later():
    async def scenario():
        turns = Turns()
        told(turns, SHOP, hung=True)
        waits = [turns.again_in_s(receiver_of(SHOP)) for _ in range(5000)]
        told(turns, SHOP)
        return waits, turns.again_in_s(receiver_of(SHOP))

    waits, when_well = run(scenario())
    assert waits[0] == pytest.approx(module.AGAIN_S + module.TRY_S / 20, abs=0.1)
    assert waits[20] - waits[0] == pytest.approx(module.TRY_S, abs=0.5)
    assert max(waits) <= module.LONGEST_S
    assert min(waits[2000:]) >= module.LONGEST_S / 2
    assert when_well == module.AGAIN_S


def test_receivers_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 2)

    async def scenario():
        turns, all_of_them = Turns(), paths(3)
        told(turns, *all_of_them)
        return [turns.temper_of(receiver_of(url)) for url in all_of_them], dict(turns._taken)

    assert run(scenario()) == ([NEW, QUICK, QUICK], {})
