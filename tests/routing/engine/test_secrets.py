import asyncio
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
