"""A journey as bars on a scale of time: what a person sees first."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from insight.journey import Journey
from routing.models import Attempt
from routing.states import FINAL

LONG_TAIL = 4  # callbacks that take this many times the task's own time are drawn on a scale of their own
NARROWEST = 0.5  # per cent; a bar that is there can be seen


@dataclass(frozen=True, slots=True)
class Bar:
    """`left` and `width` in per cent of the scale; `kind` names the colour and the words."""

    kind: str  # queue, route, send, run, wait, deliver
    left: float
    width: float
    ms: float
    failed: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One line: `name` is queue, attempt or callback."""

    name: str
    number: int | None
    bars: tuple[Bar, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Lanes that share one axis of `ms`; ticks are (per cent, ms)."""

    ms: int
    ticks: tuple[tuple[float, int], ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    kind: str
    start: dt.datetime
    end: dt.datetime
    failed: bool = False
    open: bool = False


_Lane = tuple[str, int | None, list[_Span]]


def timeline(found: Journey, now: dt.datetime) -> list[Scale]:
    """One scale for the task, and one for its callbacks when they take much longer."""
    work = _work(found, now)
    told = _told(found, now)
    start = found.task.created_at
    end = max(_last(work) or start, found.task.ended_at or start)
    if told and (_last(told) or end) - start > LONG_TAIL * max(end - start, dt.timedelta(milliseconds=1)):
        return [_scale(work, start, end), _scale(told, told[0][2][0].start, _last(told) or end)]
    return [_scale(work + told, start, max(end, _last(told) or end))]


def _work(found: Journey, now: dt.datetime) -> list[_Lane]:
    task, ended = found.task, found.task.ended_at
    queue = [_Span("queue", task.created_at, ended or now, open=not ended)]
    lanes: list[_Lane] = [
        ("queue", None, _before(task.created_at, found.attempts[0], "queue") if found.attempts else queue)
    ]
    for attempt, following in zip_longest(found.attempts, found.attempts[1:]):
        end = attempt.ended_at or ended or now
        received = attempt.received_at
        failed = attempt.outcome not in (None, "SUCCEEDED")
        going = attempt.ended_at is None and ended is None
        spans = [_Span("send", attempt.sent_at, received or end, failed and not received, going and not received)]
        if received:
            spans.append(_Span("run", received, end, failed, going))
        if following and following.sent_at > end:
            spans += _before(end, following, "wait")
        elif not following and not going and task.state not in FINAL and now > end:
            spans.append(_Span("wait", end, now, open=True))
        lanes.append(("attempt", attempt.number, spans))
    return lanes


def _before(start: dt.datetime, attempt: Attempt, kind: str) -> list[_Span]:
    """What came before an attempt was sent: a wait, and at its end the choice of whom to send it to."""
    took = (attempt.decision or {}).get("tookMs")
    chose = dt.timedelta(milliseconds=took if isinstance(took, int | float) and took > 0 else 0)
    begun = max(start, attempt.sent_at - chose)
    spans = [_Span(kind, start, begun)]
    return [*spans, _Span("route", begun, attempt.sent_at)] if chose else spans


def _told(found: Journey, now: dt.datetime) -> list[_Lane]:
    lanes: list[_Lane] = []
    for callback in found.callbacks:
        spans, free = [], callback.created_at
        for delivery in (d for d in found.deliveries if d.callback_id == callback.id):
            start = max(delivery.at, free)
            end = start + dt.timedelta(milliseconds=delivery.took_ms)
            if start > free:
                spans.append(_Span("wait", free, start))
            spans.append(_Span("deliver", start, end, delivery.error is not None))
            free = end
        if callback.state == "PENDING" and now > free:
            spans.append(_Span("wait", free, now, open=True))
        if spans:
            lanes.append(("callback", None, spans))
    return lanes


def _last(lanes: list[_Lane]) -> dt.datetime | None:
    return max((span.end for _, _, spans in lanes for span in spans), default=None)


def _scale(lanes: list[_Lane], start: dt.datetime, end: dt.datetime) -> Scale:
    whole = max(round(_ms(end - start)), 1)

    def bar(span: _Span) -> Bar:
        left = min(100 * _ms(span.start - start) / whole, 100 - NARROWEST)
        width = max(100 * _ms(span.end - span.start) / whole, NARROWEST)
        return Bar(
            span.kind,
            round(max(left, 0), 3),
            round(min(width, 100 - left), 3),
            _ms(span.end - span.start),
            span.failed,
            span.open,
        )

    drawn = tuple(
        Lane(name, number, tuple(bar(s) for s in spans), _ms(spans[-1].end - spans[0].start))
        for name, number, spans in lanes
    )
    return Scale(whole, _ticks(whole), drawn)


def _ticks(ms: int) -> tuple[tuple[float, int], ...]:
    """Three to six round numbers on the way."""
    step = next(s for s in _steps() if ms / s <= 6)
    return tuple((round(100 * at / ms, 3), at) for at in range(0, ms + 1, step))


def _steps() -> Iterator[int]:
    for power in range(12):
        for factor in (1, 2, 5):
            yield factor * 10**power


def _ms(span: dt.timedelta) -> float:
    return max(0.0, span / dt.timedelta(milliseconds=1))
