"""Which processes have tasks in line for an ability, and how many slots each of them holds: so that a process whose
slots come free does not keep all of them for itself while another's tasks, perhaps of another client, have none.

turns:{namespace}|{ability}    hash: process → [slots held, when it said so (ms, Redis's clock)]
"""

from collections.abc import Mapping

import msgspec

from common import redis

FRESH_MS = 500

Ability = tuple[str, str]  # namespace, name

_EXCHANGE = redis.Script("""
local given, time = cjson.decode(ARGV[1]), redis.call('TIME')
local now, all = time[1] * 1000 + math.floor(time[2] / 1000), {}
for n, key in ipairs(KEYS) do
  redis.call('HSET', key, given.process, cjson.encode({given.held[n], now}))
  redis.call('PEXPIRE', key, 2000)
  local entries, least = redis.call('HGETALL', key), -1
  for at = 1, #entries, 2 do
    local held, said = unpack(cjson.decode(entries[at + 1]))
    if said < now - given.fresh then
      redis.call('HDEL', key, entries[at])
    elseif entries[at] ~= given.process and (least < 0 or held < least) then
      least = held
    end
  end
  all[n] = least
end
return all""")


def exchange(process: str, held: Mapping[Ability, int]) -> dict[Ability, int]:
    """Say what this process holds of each ability for which it has tasks in line; gives the fewest that any other
    process holds which has some in line too, for the abilities where there is one. Raises RedisAway."""
    keys = [redis.key("turns", "|".join(ability)) for ability in held]
    given = msgspec.json.encode({"process": process, "held": list(held.values()), "fresh": FRESH_MS})
    least = redis.call(lambda client: _EXCHANGE(client, keys, [given]))
    return {ability: count for ability, count in zip(held, least, strict=True) if count >= 0}
