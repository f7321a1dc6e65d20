"""The one way in which processes learn that their snapshot of a namespace is old, and watchers what has happened."""

from collections.abc import Sequence

from django.db import connection, transaction

from common import broadcast
from registry.models import CatalogEvent
from registry.news import News

CHANNEL = "changes"
KEPT = 10_000  # versions whose news can be told again
CLEARED_EVERY = 500


def touch(namespace: str, news: Sequence[News] = ()) -> int:
    """Raise the namespace's version and, once committed, tell every process; returns the new version.

    To be called last in the transaction: it locks the namespace's row, so changes of one namespace queue up behind it.
    `news` are kept under the new version for those who watch the catalog.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("changes.touch() belongs into the transaction of the change")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE registry_namespace SET version = version + 1 WHERE name = %s RETURNING version", [namespace]
        )
        row = cursor.fetchone()
    version = int(row[0]) if row else 0
    _keep(namespace, version, news)
    transaction.on_commit(lambda: broadcast.publish(CHANNEL, {"namespace": namespace, "version": version}))
    return version


def _keep(namespace: str, version: int, news: Sequence[News]) -> None:
    CatalogEvent.objects.bulk_create(
        CatalogEvent(namespace=namespace, version=version, number=number, event=one.event, document=one.document)
        for number, one in enumerate(news)
    )
    if version % CLEARED_EVERY == 0:
        CatalogEvent.objects.filter(namespace=namespace, version__lte=version - KEPT).delete()
