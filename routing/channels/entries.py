"""The Redis streams that agents read: one an instance, `reach:{namespace}:agent:{agentId}:{instanceId}`, with the group
`reach` and one field `task` an entry.

Beside each stream a hash keeps which entry is whose, so that an attempt's entry is found again, and a set keeps which
streams there are. All three come and go together: what the hash lacks was lost. Everything here may raise RedisAway.
"""

from collections.abc import Callable
from typing import Any

from common import redis
from common.redis import Script

GROUP, FIELD = "reach", "task"
UNREAD, READ, GONE = "UNREAD", "READ", "GONE"

Stream = tuple[str, str, str]  # namespace, agent id, instance id

_ADD = Script(
    """redis.pcall('XGROUP', 'CREATE', KEYS[1], 'reach', '0', 'MKSTREAM')
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], redis.call('XADD', KEYS[1], '*', 'task', ARGV[2]))
redis.call('SADD', KEYS[3], ARGV[3])
return 1"""
)
# Unread is what the group has not handed out yet; an entry that somebody else took out counts as handed out.
_WITHDRAW = Script(
    """local id = redis.call('HGET', KEYS[2], ARGV[1])
if not id then return 'GONE' end
local last = false
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err == nil then
  for _, group in ipairs(groups) do
    local named = {}
    for i = 1, #group, 2 do named[group[i]] = group[i + 1] end
    if named['name'] == 'reach' then last = named['last-delivered-id'] end
  end
end
redis.pcall('XACK', KEYS[1], 'reach', id)
redis.call('HDEL', KEYS[2], ARGV[1])
if redis.call('XDEL', KEYS[1], id) == 0 or not last then return 'GONE' end
local ms, seq = string.match(id, '(%d+)-(%d+)')
local last_ms, last_seq = string.match(last, '(%d+)-(%d+)')
ms, seq, last_ms, last_seq = tonumber(ms), tonumber(seq), tonumber(last_ms), tonumber(last_seq)
if ms > last_ms or (ms == last_ms and seq > last_seq) then return 'UNREAD' end
return 'READ'"""
)
_NAMES = Script(
    """local names = redis.call('HKEYS', KEYS[1])
if #names == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return names"""
)


def key(stream: Stream) -> str:
    """The stream's key."""
    namespace, agent_id, instance_id = stream
    return redis.key(namespace, "agent", agent_id, instance_id)


def add(stream: Stream, attempt: str, body: bytes) -> bool:
    """Add the attempt's request; False where it is there already."""
    keys = [*_keys(stream), redis.key("streams")]
    return bool(_call(lambda client: _ADD(client, keys, [attempt, body, "\n".join(stream)])))


def withdraw(stream: Stream, attempt: str) -> str:
    """Take the attempt's entry out, for readers and for those who would claim it: it was UNREAD, READ, or is GONE."""
    return str(_call(lambda client: _WITHDRAW(client, _keys(stream), [attempt])).decode())


def kept() -> dict[Stream, set[str]]:
    """The attempts that have an entry, by stream."""
    found: dict[Stream, set[str]] = {}
    for member in _call(lambda client: client.smembers(redis.key("streams"))):
        namespace, agent_id, instance_id = member.decode().split("\n")
        stream = (namespace, agent_id, instance_id)
        found[stream] = _names(stream, member)
    return found


def _names(stream: Stream, member: bytes) -> set[str]:
    """Those of one stream, which is forgotten where it has none."""
    keys = [_keys(stream)[1], redis.key("streams")]
    return {name.decode() for name in _call(lambda client: _NAMES(client, keys, [member]))}


def _keys(stream: Stream) -> list[str]:
    namespace, agent_id, instance_id = stream
    return [key(stream), redis.key(namespace, "entries", agent_id, instance_id)]


def _call(work: Callable[[Any], Any]) -> Any:
    return redis.call(work)
