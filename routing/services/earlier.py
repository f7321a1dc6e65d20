"""Requests of the same client with the same correlationId: what the first one became answers for all."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from common.database import hot_cursor, robust
from common.errors import IdempotencyMismatch
from common.json import parse, same
from routing.requests import ReachRequest
from routing.services.asked import opened
from routing.trip import Accepted

_PATIENCE_S = 2.0
_EARLIER = """
SELECT i.correlation_id, i.task_id, i.digest, t.state, t.trace_id, b.request
FROM routing_idempotency i JOIN routing_task t ON t.id = i.task_id JOIN routing_taskbody b ON b.task_id = i.task_id
WHERE i.namespace = %(namespace)s AND i.client = %(client)s AND i.correlation_id = ANY(%(correlation_ids)s::text[])"""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A request that became a task: the digest of its bytes, and the bytes as they are stored."""

    task_id: uuid.UUID
    digest: bytes
    state: str
    trace_id: str
    stored: bytes

    def answer(self, request: ReachRequest, digest: bytes) -> Accepted | IdempotencyMismatch:
        """The earlier task where the request says the same; bodies are compared only when their digests differ."""
        if bytes(self.digest) != digest and not same(parse(opened(bytes(self.stored))), request.value):
            return IdempotencyMismatch()
        return Accepted(self.task_id, self.trace_id, request.correlation_id, self.state, replayed=True)


@robust(patience=_PATIENCE_S)
def requests(namespace: str, client: str, correlation_ids: Sequence[str]) -> dict[str, Earlier]:
    """Those that there were, by correlationId; one query, none for an empty list."""
    if not correlation_ids:
        return {}
    values = {"namespace": namespace, "client": client, "correlation_ids": list(correlation_ids)}
    with hot_cursor() as cursor:
        return {row[0]: Earlier(*row[1:]) for row in cursor.execute(_EARLIER, values, prepare=True).fetchall()}
