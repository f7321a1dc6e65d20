"""The one way in which processes learn that their snapshot of a namespace is old."""

from django.db import connection, transaction

from common import broadcast

CHANNEL = "changes"


def touch(namespace: str) -> int:
    """Raise the namespace's version and, once committed, tell every process; returns the new version.

    To be called last in the transaction: it locks the namespace's row, so changes of one namespace queue up behind it.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("changes.touch() belongs into the transaction of the change")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE registry_namespace SET version = version + 1 WHERE name = %s RETURNING version", [namespace]
        )
        row = cursor.fetchone()
    version = int(row[0]) if row else 0
    transaction.on_commit(lambda: broadcast.publish(CHANNEL, {"namespace": namespace, "version": version}))
    return version
