"""Which media type an answer gets: `Accept` as RFC 9110 (12.5.1) has it, weights included."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from common.errors import NotAcceptable

_RANGE = re.compile(r"\s*([!#$%&'*+.^_`|~\w-]+)/([!#$%&'*+.^_`|~\w-]+)\s*((?:;[^,]*)?)", re.ASCII)
_WEIGHT = re.compile(r";\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*(?:;|\Z)", re.ASCII | re.IGNORECASE)
_ELEMENT = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*+"?)++', re.DOTALL)


class Negotiation(DefaultContentNegotiation):
    """Takes the renderer of the highest weight, the earlier one among equals; a weight of 0 is a refusal.

    A missing or empty field accepts everything. `?format=` is the views' own and chooses no renderer.
    """

    def select_renderer(
        self, request: Request, renderers: Sequence[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Raises NotAcceptable when none is accepted, which names what can be given."""
        header = request.META.get("HTTP_ACCEPT", "")
        if not header.strip(" \t,"):
            return renderers[0], str(renderers[0].media_type)
        ranges = list(_ranges(header))
        weights = [_weight(str(renderer.media_type), ranges) for renderer in renderers]
        best = max(weights)
        if not best:
            offered = ", ".join(dict.fromkeys(str(renderer.media_type) for renderer in renderers))
            raise NotAcceptable(f"what can be given here is {offered}")
        chosen = renderers[weights.index(best)]
        return chosen, str(chosen.media_type)


def _ranges(header: str) -> Iterator[tuple[str, str, float]]:
    """(type, subtype, weight) of each well-formed media range."""
    for element in _ELEMENT.findall(header):
        match = _RANGE.fullmatch(element)
        if match:
            weight = _WEIGHT.search(match[3])
            yield match[1].lower(), match[2].lower(), min(float(weight[1]), 1.0) if weight else 1.0


def _weight(media_type: str, ranges: list[tuple[str, str, float]]) -> float:
    """The weight that the most specific matching range gives; 0 where none matches."""
    main, _, sub = media_type.partition("/")
    for wanted in ((main, sub), (main, "*"), ("*", "*")):
        found: list[Any] = [weight for kind, subkind, weight in ranges if (kind, subkind) == wanted]
        if found:
            return float(max(found))
    return 0.0
