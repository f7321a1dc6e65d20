"""Saved views: each person's own, found again by name."""

from common.errors import StateConflict
from insight.models import SavedView

MOST = 50  # of one person


def save(user_id: int, name: str, query: str) -> None:
    """Keep the query under that name, in place of what had it before. Raises StateConflict when there are too many."""
    others = SavedView.objects.filter(user_id=user_id).exclude(name=name)
    if others.count() >= MOST:
        raise StateConflict(f"at most {MOST} views are kept")
    SavedView.objects.update_or_create(user_id=user_id, name=name, defaults={"query": query})


def forget(user_id: int, name: str) -> None:
    """Drop it, if it is there."""
    SavedView.objects.filter(user_id=user_id, name=name).delete()
