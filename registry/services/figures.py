"""The figures of the health rule for each agent: the platform's, with what its manifest sets."""

import threading
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from django.conf import settings

from registry.health import HealthSettings, settings_from
from registry.models import Agent, Revision

KEPT = 50_000

_lock = threading.Lock()
_known: dict[tuple[int, int], HealthSettings] = {}


def of_agents(agents: Iterable[tuple[int, int]]) -> dict[int, HealthSettings]:
    """The figures by agent, for (agent, revision); one query for those that are not known yet."""
    wanted = set(agents)
    missing = wanted - _known.keys()
    if missing:
        found = _read(missing)
        with _lock:
            if len(_known) > KEPT:
                _known.clear()
            _known.update(found)
        return {pk: found.get((pk, revision)) or _known[pk, revision] for pk, revision in wanted}
    return {pk: _known[pk, revision] for pk, revision in wanted}


def platform() -> HealthSettings:
    """The figures of the platform, before what any manifest sets."""
    figures: dict[str, Any] = settings.REACH_HEALTH
    return HealthSettings(**figures)


def _read(missing: Collection[tuple[int, int]]) -> dict[tuple[int, int], HealthSettings]:
    base, pks = platform(), {pk for pk, _ in missing}
    specs: dict[int, Any] = dict(Agent.objects.filter(pk__in=pks).values_list("pk", "manifest__spec"))
    revisions = Revision.objects.filter(agent__in=pks).values_list("agent_id", "number", "created_at")
    made = {(pk, number): at.timestamp() for pk, number, at in revisions if (pk, number) in missing}
    return {
        key: replace(settings_from(specs.get(key[0]) or {}, base), contract_since=made.get(key, 0.0)) for key in missing
    }


def forget_all() -> None:
    """Read them anew, after the platform's own were changed."""
    with _lock:
        _known.clear()
