"""What must be so after everything: counted from the platform's rows and from what the others saw."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from reach_platform.embedded.place import Place
from tests.chaos.faults import Hit
from tests.chaos.outside import Ledger
from tests.chaos.town import FINAL, WITH_LOOKUP, Town
from tests.crash.suite import table

_TASKS = "SELECT correlation_id, state, outcome FROM routing_task WHERE namespace = %s"
_ENDS = """
SELECT t.correlation_id, count(*) FROM routing_event e JOIN routing_task t ON t.id = e.task_id
WHERE t.namespace = %s AND e.event = e.to_state AND e.to_state = ANY(%s) GROUP BY t.correlation_id"""
_ATTEMPTS = """
SELECT t.correlation_id, a.key, a.certainty, a.ended_at IS NULL FROM routing_attempt a
JOIN routing_task t ON t.id = a.task_id WHERE t.namespace = %s"""


@dataclass
class Count:
    """`wrongs` by what is wrong, each with the tasks' keys; `numbers` and `recovery` are for people."""

    wrongs: dict[str, list[str]]
    numbers: dict[str, Any]
    recovery: list[list[str]]

    @property
    def found(self) -> dict[str, list[str]]:
        """What is wrong, with a few examples."""
        return {what: keys[:5] for what, keys in self.wrongs.items() if keys}

    def text(self) -> str:
        """The tables."""
        numbers = table(["what", "count"], [[name, str(value)] for name, value in self.numbers.items()])
        wrongs = table(["must not be", "tasks"], [[what, str(len(keys))] for what, keys in self.wrongs.items()])
        return f"{numbers}\n\n{wrongs}\n\n{table(RECOVERY, self.recovery)}"


RECOVERY = ["fault", "times", "a new task told, s: p50", "max", "all that were open told, s: p50", "max"]


def count(ids: dict[str, str], accepted_at: dict[str, float], hits: Sequence[Hit], town: Town) -> Count:
    ledger = town.outside.ledger
    with psycopg.connect(Place.of(Path(town.platform.home.name)).database_url) as database:
        tasks = database.execute(_TASKS, [town.namespace]).fetchall()
        ends: dict[str, int] = dict(database.execute(_ENDS, [town.namespace, sorted(FINAL)]).fetchall())
        attempts = database.execute(_ATTEMPTS, [town.namespace]).fetchall()
    states = {key: state for key, state, _ in tasks}
    not_sent = {(key, str(attempt)) for key, attempt, certainty, _ in attempts if certainty == "NOT_SENT"}
    wrongs = {
        "accepted and not there": sorted(ids.keys() - states.keys()),
        "there twice": [key for key, times in Counter(key for key, *_ in tasks).items() if times > 1],
        "not ended": [key for key, state, outcome in tasks if state not in FINAL or outcome != state],
        "not called back": sorted(ids.keys() - ledger.told.keys()),
        "called back otherwise than ended": [key for key, state in states.items() if _ends_told(ledger, key) != {state}],
        "two different results told": [key for key in ids if len(_results_told(ledger, key)) > 1],
        "two callbacks of one end": [key for key in ids if len({one["webhookId"] for one in _told(ledger, key)}) > 1],
        "ended twice": [key for key in ids if ends.get(key) != 1],
        "an attempt still open": [key for key, _, _, is_open in attempts if is_open],
        "an attempt sent twice": [key for key, sent in ledger.calls.items() if len(set(sent)) < len(sent)],
        "side effect twice, with lookup": [key for key, times in ledger.effects.items() if times > 1 and _looks_up(key)],
        "said to be not sent, and was": [key for key, sent in ledger.calls.items() for one in sent if (key, one) in not_sent],
    }  # fmt: skip
    numbers = {
        "accepted": len(ids),
        **{f"ended {state}": times for state, times in sorted(Counter(states.values()).items())},
        "called back": len(ids.keys() & ledger.told.keys()),
        "messages to the receiver": sum(map(len, ledger.told.values())),
        "attempts": len(attempts),
        "lookups asked": sum(ledger.lookups.values()),
        "faults": len(hits),
        "run twice by agents without lookup": sum(t > 1 and not _looks_up(key) for key, t in ledger.effects.items()),
    }
    told_at = {key: _told(ledger, key)[0]["at"] for key in ids if _told(ledger, key)}
    return Count(wrongs, numbers, _recovery(hits, accepted_at, told_at))


def _looks_up(key: str) -> bool:
    return key.split("-", maxsplit=1)[0] in WITH_LOOKUP


def _told(ledger: Ledger, key: str) -> list[dict[str, Any]]:
    return [one for one in ledger.told.get(key, []) if not one.get("late")]


def _ends_told(ledger: Ledger, key: str) -> set[str]:
    return {one["state"] for one in _told(ledger, key)}


def _results_told(ledger: Ledger, key: str) -> set[str]:
    return {repr((one["state"], one.get("result"))) for one in _told(ledger, key)}


def _recovery(hits: Sequence[Hit], accepted_at: dict[str, float], told_at: dict[str, float]) -> list[list[str]]:
    """From a fault's beginning: until a task accepted after it was told, and until all that were open at it were."""
    fresh, stale = defaultdict(list), defaultdict(list)
    for hit in hits:
        new = [told_at[key] for key, at in accepted_at.items() if at > hit.began and key in told_at]
        held = [told_at[key] for key, at in accepted_at.items() if at <= hit.began < told_at.get(key, 0.0)]
        if new:
            fresh[hit.name].append(min(new) - hit.began)
        if held:
            stale[hit.name].append(max(held) - hit.began)
    times = Counter(hit.name for hit in hits)
    return [[name, str(times[name]), *_spread(fresh[name]), *_spread(stale[name])] for name in sorted(times)]


def _spread(values: list[float]) -> list[str]:
    return [f"{statistics.median(values):.1f}", f"{max(values):.1f}"] if values else ["–", "–"]
