import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from routing.engine.secrets import SecretsCache


def test_a_change_of_the_namespace_is_read_at_once_and_nothing_else_is():
    version, reads = [1], []

    def read(namespace, client, now):
        reads.append(version[0])
        return [f"whsec_{version[0]}"]

    async def use():
        with ThreadPoolExecutor(1) as executor:
            cache = SecretsCache(read, lambda namespace: version[0], executor)
            first = [await cache.of("ns", "shop") for _ in range(3)]
            version[0] = 2
            return [*first, await cache.of("ns", "shop")]

    assert asyncio.run(use()) == [["whsec_1"]] * 3 + [["whsec_2"]]
    assert reads == [1, 2]


def test_who_asks_while_they_are_read_waits_for_the_same_answer():
    reads, over = [], threading.Event()

    def read(namespace, client, now):
        reads.append(client)
        assert over.wait(30)
        return ["whsec_1"]

    async def use():
        with ThreadPoolExecutor(4) as executor:
            cache = SecretsCache(read, lambda namespace: 1, executor)
            asked = asyncio.gather(*(cache.of("ns", "shop") for _ in range(50)))
            await asyncio.sleep(0)
            over.set()
            return await asked

    assert (asyncio.run(use()), reads) == ([["whsec_1"]] * 50, ["shop"])


def test_a_read_that_failed_is_tried_again():
    answers = [RuntimeError("away"), ["whsec_1"]]

    def read(namespace, client, now):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def use():
        with ThreadPoolExecutor(1) as executor:
            cache = SecretsCache(read, lambda namespace: 1, executor)
            [failed] = await asyncio.gather(cache.of("ns", "shop"), return_exceptions=True)
            return type(failed), await cache.of("ns", "shop")

    assert asyncio.run(use()) == (RuntimeError, ["whsec_1"])
