"""Why an instance moved: written down in English when it happened, said in the language of whoever reads it.

Each sentence stands here once, with names for what differs; what is no such sentence, such as a probe's own words,
stays as it is.
"""

import re
from functools import cache

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

_SENTENCES = (
    _("ejected: {why}"),
    _("{why}; its calls succeed"),
    _("it left"),
    _("the agent was deleted"),
    _("registered"),
    _("registered again"),
    _("heard again"),
    _("a probe succeeded"),
    _("failed"),
    _("not heard for {seconds} s"),
    _("{count} failed probes in a row, the last: {why}"),
    _("its last {count} calls reached nobody"),
    _("nothing but failed calls for {seconds} s ({count}, the last: {code})"),
    _("{count} successes in a row and {seconds} s"),
    _("well again for {seconds} s"),
    _("{share} of its last {count} calls failed"),
    _("95% of its calls take up to {ms} ms, over {limit} ms"),
    _("{misfits} of its last {count} answers do not fit the declared output schema"),
    _("it reports degraded"),
    _("it reports {parts}"),
)
_PARTS = ("why",)  # may be one of the sentences in turn


def in_words(reason: str) -> str:
    """The reason in the language that is active."""
    for sentence, pattern in _patterns():
        if found := pattern.fullmatch(reason):
            parts = {name: in_words(part) if name in _PARTS else part for name, part in found.groupdict().items()}
            return gettext(sentence).format(**parts)
    return reason


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(sentence, re.compile(_expression(sentence), re.DOTALL)) for sentence in _SENTENCES]


def _expression(sentence: str) -> str:
    """The sentence as a regular expression, in which each name stands for some text without its neighbours."""
    pieces = re.split(r"\{(\w+)\}", sentence)
    return "".join(f"(?P<{piece}>.+)" if index % 2 else re.escape(piece) for index, piece in enumerate(pieces))
