"""Whether a text holds what somebody searches for, in English and in Chinese. Pure.

English is searched word by word. Chinese has no spaces: a run of its characters is found when it can be cut into pieces
of at least two characters that all stand in the text, whatever their order, so that 工单分类 finds 对工单进行分类.
"""

import re
from functools import cache

_RUN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+|[^\s\u3400-\u9fff\uf900-\ufaff]+")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_PARTICLES = frozenset("的了和与及或对把被在是")  # hold nothing that one would search for


def folded(text: str) -> str:
    """The form in which texts and searches are compared."""
    return text.casefold()


def matches(search: str, text: str) -> bool:
    """Whether every word of `search` stands in `text`, which is `folded`."""
    return all(_stands(run, text) for run in _RUN.findall(folded(search)))


def _stands(run: str, text: str) -> bool:
    return run in text or (_HAN.match(run) is not None and _cut(run, text))


def _cut(run: str, text: str) -> bool:
    """Whether the run falls into pieces of two or more characters that stand in the text, particles aside."""

    @cache
    def rest(at: int) -> bool:
        if at == len(run):
            return True
        pieces = (end for end in range(at + 2, len(run) + 1) if run[at:end] in text)
        return any(rest(end) for end in pieces) or (run[at] in _PARTICLES and rest(at + 1))

    return not _PARTICLES.issuperset(run) and rest(0)
