"""The figures of the health rule for each agent: the platform's, with what its manifest sets."""

import threading
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from registry.health import HealthSettings, settings_from
from registry.models import Agent

KEPT = 50_000

_lock = threading.Lock()
_known: dict[tuple[int, int], HealthSettings] = {}


def of_agents(agents: Iterable[tuple[int, int]]) -> dict[int, HealthSettings]:
    """The figures by agent, for (agent, revision); one query for those that are not known yet."""
    wanted = set(agents)
    missing = wanted - _known.keys()
    if missing:
        base = HealthSettings(**getattr(settings, "REACH_HEALTH", {}))
        specs: dict[int, Any] = dict(
            Agent.objects.filter(pk__in={pk for pk, _ in missing}).values_list("pk", "manifest__spec")
        )
        found = {(pk, revision): settings_from(specs.get(pk) or {}, base) for pk, revision in missing}
        with _lock:
            if len(_known) > KEPT:
                _known.clear()
            _known.update(found)
        return {pk: found.get((pk, revision)) or _known[pk, revision] for pk, revision in wanted}
    return {pk: _known[pk, revision] for pk, revision in wanted}


def forget_all() -> None:
    """Read them anew, after the platform's own were changed."""
    with _lock:
        _known.clear()
