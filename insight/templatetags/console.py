"""How the console writes times, durations and states."""

import datetime as dt
import json

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from callbacks.models import CallbackState
from common.clock import parse_time, rfc3339
from insight.causes import reason_words
from insight.models import Bulk
from registry.reasons import in_words
from registry.states import InstanceState
from routing.states import Certainty, TaskState

register = template.Library()
_STATES = {
    **dict(Bulk.State.choices),
    **dict(CallbackState.choices),
    **dict(TaskState.choices),
    **dict(InstanceState.choices),
}


@register.filter
def moment(at: dt.datetime | str | None) -> SafeString | str:
    """A <time> that the page turns into the viewer's zone; without JavaScript it reads as UTC."""
    if not at:
        return "–"
    when = parse_time(at) if isinstance(at, str) else at
    text = when.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    return format_html('<time datetime="{}" title="{} UTC">{} UTC</time>', rfc3339(when), text, text)


@register.filter
def duration(ms: int | float | None) -> str:
    """412 ms · 3.2 s · 4 min 10 s · 2 h 5 min."""
    if ms is None:
        return "–"
    if 0 < ms < 1:
        return _("under 1 ms")
    ms = int(ms)
    if ms < 1000:
        return _("%(n)s ms") % {"n": ms}
    if ms < 60_000:
        return _("%(n)s s") % {"n": f"{ms / 1000:.3g}"}
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return _("%(m)s min %(s)s s") % {"m": minutes, "s": seconds}
    hours, minutes = divmod(minutes, 60)
    return _("%(h)s h %(m)s min") % {"h": hours, "m": minutes}


@register.filter
def share(value: float | None) -> str:
    """A factor from 0 to 1."""
    return "–" if value is None else f"{value:.2f}"


@register.filter
def percent(value: float | None) -> str:
    """The same in per cent."""
    return "–" if value is None else f"{100 * value:.1f} %"


@register.filter
def clock(at: dt.datetime) -> str:
    """A moment in UTC, for where no element may stand."""
    return at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


@register.filter
def took(task: object) -> str:
    """From acceptance to the end of a task."""
    ended = getattr(task, "ended_at", None)
    return duration((ended - task.created_at) / dt.timedelta(milliseconds=1)) if ended else "…"  # type: ignore[attr-defined]


@register.inclusion_tag("console/_state.html")
def state(name: str | None) -> dict[str, str]:
    """A task's or callback's state, or an attempt's outcome, as a chip: colour, sign and word."""
    label = _STATES.get(name or "", name or "–")
    return {"name": name or "", "label": str(label)}


@register.filter
def certainty(value: str) -> str:
    """A commit certainty's words in the page's language."""
    return str(Certainty(value).label)


@register.filter
def reasons(codes: str | None) -> str:
    """Why a candidate was passed over, in words with the codes behind them."""
    if not codes:
        return "–"
    words = reason_words(codes).in_language(get_language())
    return words if words == codes else f"{words} ({codes})"


@register.filter
def why(reason: str | None) -> str:
    """Why an instance moved, in the page's language."""
    return in_words(reason) if reason else "–"


@register.filter
def person(actor: str) -> str:
    """Who did it, without what kind of principal that is."""
    return actor.partition(":")[2] or actor


@register.filter
def unlocalized(number: float) -> str:
    """A number for an attribute: a point, whatever the language."""
    return f"{number:g}"


@register.filter
def detail(value: object) -> str:
    """An event's detail on one line; a decision inside has its own table."""
    if not isinstance(value, dict):
        return "–"
    return " · ".join(f"{key}: {_short(item)}" for key, item in value.items() if key != "decision") or "–"


def _short(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


@register.filter
def filter_name(name: str) -> str:
    """What a list is narrowed down by, in words."""
    words = {
        "namespace": _("Namespace"),
        "ability": _("Ability"),
        "agent": _("Agent"),
        "client": _("Client"),
        "error": _("Error"),
        "callback": _("Callback"),
        "within": _("In the last"),
    }
    return words.get(name, name)


@register.filter
def span(name: str) -> str:
    """1h, 24h or 7d in words; anything else as it is."""
    return {"1h": _("1 hour"), "24h": _("24 hours"), "7d": _("7 days")}.get(name, name)


@register.simple_tag(takes_context=True)
def narrowed(context: template.Context, **changes: str) -> str:
    """The address's query of the list that is looked at, narrowed down further."""
    query: str = context["asked"].but(**changes).query()
    return query
