"""What the buttons say, and what they say will happen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import get_language
from django.utils.translation import gettext as _

from callbacks.models import CallbackState
from insight.journey import Journey
from routing.states import Certainty


@dataclass(frozen=True, slots=True)
class ActionWords:
    """A button and its question: `danger` colours what cannot be taken back, `suggested` what would help."""

    name: str
    label: str
    question: str
    consequence: str
    confirm: str
    danger: bool = False
    suggested: bool = False


def action_words(name: str, found: Journey) -> ActionWords:
    """The words of cancel, retry or redeliver for this very task."""
    return {"cancel": _cancel, "retry": _retry, "redeliver": _redeliver}[name](found)


def done_words(name: str) -> str:
    """What a page says once it is done."""
    return {
        "cancel": _("The task is cancelled."),
        "retry": _("The task starts again."),
        "redeliver": _("The callback is on its way again."),
    }[name]


def _cancel(found: Journey) -> ActionWords:
    if found.attempts and found.attempts[-1].ended_at is None:
        effect = _("The agent may be working on it already; what it has done is not undone.")
    else:
        effect = _("No agent will be called for it any more.")
    return ActionWords(
        "cancel", _("Cancel"), _("Cancel this task?"), _joined(effect, _told(found)), _("Cancel the task"), danger=True
    )


def _retry(found: Journey) -> ActionWords:
    effect = _("The same task starts again with a fresh time budget: an agent is called once more.")
    if any(a.certainty != Certainty.NOT_SENT for a in found.attempts):
        twice = _("An earlier attempt may have had its effect already, so the work could be done twice.")
        effect = _joined(effect, twice)
    return ActionWords(
        "retry", _("Retry"), _("Retry this task?"), _joined(effect, _told(found)), _("Retry the task"), suggested=True
    )


def _redeliver(found: Journey) -> ActionWords:
    effect = _("The same message, with the same id, is sent again to %(url)s; a new series of tries begins.")
    values: dict[str, Any] = {"url": found.callback.url if found.callback else ""}
    return ActionWords(
        "redeliver",
        _("Redeliver callback"),
        _("Send the callback again?"),
        effect % values,
        _("Send it again"),
        suggested=found.callback is not None and found.callback.state == CallbackState.DEAD,
    )


def _told(found: Journey) -> str:
    if found.callback or found.callbacks:
        return _("The caller gets a callback when it ends.")
    return _("The caller sees it when it asks.")


def _joined(*sentences: str) -> str:
    return ("" if (get_language() or "").startswith("zh") else " ").join(sentences)


@dataclass(frozen=True, slots=True)
class BulkWords:
    """A bulk action's question: `warning` is what to think of before."""

    title: str
    question: str
    consequence: str
    confirm: str
    warning: str = ""
    danger: bool = False


def bulk_words(action: str, count: int, repeated: int) -> BulkWords:
    """The words of a bulk action on `count` tasks, of which `repeated` may have had their effect already."""
    number = {"n": count}
    if action == "cancel":
        return BulkWords(
            _("Cancel many tasks"),
            _("Cancel %(n)s tasks?") % number,
            _("No agent will be called for them any more; what an agent is working on already is not undone."),
            _("Cancel %(n)s tasks") % number,
            danger=True,
        )
    if action == "redeliver":
        return BulkWords(
            _("Redeliver many callbacks"),
            _("Send %(n)s callbacks again?") % number,
            _("Each receiver gets the same message with the same id again; a new series of tries begins for each."),
            _("Send %(n)s callbacks") % number,
        )
    twice = _("Sent to an agent before, so that work could be done twice: %(n)s of them.") % {"n": repeated}
    return BulkWords(
        _("Retry many tasks"),
        _("Retry %(n)s tasks?") % number,
        _("Each starts again with a fresh time budget: an agent is called once more for it."),
        _("Retry %(n)s tasks") % number,
        warning=twice if repeated else "",
    )


def phase_words(timings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """What of a task's time is known by its phase, in the order in which they come: (words, ms)."""
    words = {
        "queuedMs": _("in the queue"),
        "discoveryMs": _("finding who offers it"),
        "routingMs": _("choosing among them"),
        "poolWaitMs": _("waiting for a connection"),
        "connectMs": _("connecting"),
        "agentMs": _("at the agent"),
        "callbackMs": _("calling back"),
        "totalMs": _("in all"),
    }
    return [(text, timings[name]) for name, text in words.items() if timings.get(name) is not None]
