"""Instance states, as owners and support staff see them.

NEW → ONLINE ⇄ DEGRADED → OFFLINE → NEW. Back from OFFLINE only through NEW.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _


class InstanceState(models.TextChoices):
    NEW = "NEW", _("new")  # registered or back from OFFLINE: a small share of traffic until it has proved itself
    ONLINE = "ONLINE", _("online")  # takes its full share
    DEGRADED = "DEGRADED", _("degraded")  # slow, failing in part or self-reported: a reduced share
    OFFLINE = "OFFLINE", _("offline")  # takes nothing


ROUTABLE = frozenset({InstanceState.NEW, InstanceState.ONLINE, InstanceState.DEGRADED})

MOVES: dict[str, frozenset[str]] = {
    InstanceState.NEW: frozenset({InstanceState.ONLINE, InstanceState.DEGRADED, InstanceState.OFFLINE}),
    InstanceState.ONLINE: frozenset({InstanceState.DEGRADED, InstanceState.OFFLINE}),
    InstanceState.DEGRADED: frozenset({InstanceState.ONLINE, InstanceState.OFFLINE}),
    InstanceState.OFFLINE: frozenset({InstanceState.NEW}),
}


class FiringState(models.TextChoices):
    PENDING = "PENDING", _("pending")  # due at due_at
    DELIVERED = "DELIVERED", _("delivered")  # the receiver answered 2xx, or the command ended with 0
    DEAD = "DEAD", _("dead")  # given up: every try failed, 410, or a refused address
