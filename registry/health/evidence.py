"""What is known of an instance, and simple measures of it. Times are seconds since 1970."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar


class Probe(NamedTuple):
    """One active check; `reason` says why it failed."""

    at: float
    ok: bool
    ms: float | None
    reason: str
    prober: str


class Call(NamedTuple):
    """One live call, or the result that one led to later. `code` is the task error of a failed one, RECEIVED where the
    instance took the work and its result is yet to come; `fits` = its answer has the declared form, None if unknown."""

    at: float
    ok: bool
    ms: float | None
    code: str
    fits: bool | None = None


RECEIVED = "RECEIVED"

Result = TypeVar("Result", Probe, Call)


class Drift(NamedTuple):
    """How many answers were compared with the declared form, and how many do not have it."""

    answers: int
    misfits: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Probes and calls are oldest first. `listens` = it sends heartbeats at all; `beats` are the times of its newest
    good heartbeats in a row, `good_since` since when all were good (None when the last was not), `complaint` what the
    last one said is wrong. `suspect` = its prober fails everywhere, so its probes say nothing; without
    `silence_counts` it may well be heard where nobody can look just now."""

    state_since: float
    heard_at: float | None = None
    good_since: float | None = None
    complaint: str = ""
    beats: tuple[float, ...] = ()
    probes: tuple[Probe, ...] = ()
    calls: tuple[Call, ...] = ()
    baseline_ms: float | None = None
    slate_since: float = 0.0
    left: bool = False
    listens: bool = True
    suspect: bool = False
    silence_counts: bool = True


def failures_in_a_row(results: Sequence[Result]) -> Sequence[Result]:
    """The failed ones at the end."""
    count = 0
    while count < len(results) and not results[-1 - count].ok:
        count += 1
    return results[len(results) - count :]


def results(calls: Sequence[Call]) -> list[Call]:
    """Without receipts: those show that it can be reached, and not how its work goes."""
    return [call for call in calls if call.code != RECEIVED]


def drift_of(calls: Sequence[Call], newest: int, since: float) -> Drift:
    """How many of the `newest` answers, none older than `since`, do not have the declared form."""
    answers = [call.fits for call in calls if call.fits is not None and call.at >= since][-newest:]
    return Drift(len(answers), answers.count(False))


def within(calls: Sequence[Call], since: float) -> list[Call]:
    """Those at or after `since`."""
    return [call for call in calls if call.at >= since]


def p95_ms(calls: Sequence[Call], at_least: int) -> float | None:
    """The 95th percentile of the good calls' latencies; None if there are fewer than `at_least`."""
    known = sorted(call.ms for call in calls if call.ok and call.ms is not None)
    return known[-(-len(known) * 95 // 100) - 1] if known and len(known) >= at_least else None


def mean_ms(calls: Sequence[Call]) -> float | None:
    """The mean latency of the good calls; None without any."""
    known = [call.ms for call in calls if call.ok and call.ms is not None]
    return sum(known) / len(known) if known else None


def failure_share(calls: Sequence[Call], at_least: int = 1) -> float | None:
    """The share of calls that failed; None if there are fewer than `at_least`."""
    return sum(not call.ok for call in calls) / len(calls) if calls and len(calls) >= at_least else None
