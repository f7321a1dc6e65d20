"""Which ability a question is about: named outright, the only one with the wanted tags, or told by its meaning.

Matching by meaning is not there yet: `by_meaning` is its place. Until then words find suggestions and nothing more.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from common.errors import NoMatch
from routing.snapshot import Ability

SUGGESTED = 5
_LATIN = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")  # Chinese, Japanese, Korean


@dataclass(frozen=True, slots=True)
class Match:
    """`kind` is exact, tag or semantic; `confidence` from 0 to 1."""

    ability: Ability
    kind: str
    confidence: float = 1.0


Meaning = Callable[[str, list[Ability]], Match | None]


def by_meaning(_intent: str, _abilities: list[Ability]) -> Match | None:
    """The ability that the words mean; None where none is near enough."""
    return None


def match(
    intent: str | None, tags: Iterable[str], mode: str, abilities: list[Ability], meaning: Meaning = by_meaning
) -> Match | None:
    """The ability that an intent, or tags alone, stand for, of these; `mode` is exact, tag, semantic or auto.

    In auto the name is tried first, then the tags, then the meaning among those with the tags.
    """
    wanted = set(tags)
    tagged = [one for one in abilities if wanted and has_tags(one, wanted)]
    if mode in ("exact", "auto"):
        for one in abilities if intent is not None else ():
            if one.name == intent:
                return Match(one, "exact")
    if mode in ("tag", "auto") and len(tagged) == 1:
        return Match(tagged[0], "tag")
    if mode in ("semantic", "auto") and intent is not None:
        return meaning(intent, tagged if wanted else abilities)
    return None


def matched(
    intent: str | None, tags: Iterable[str], mode: str, abilities: list[Ability], meaning: Meaning = by_meaning
) -> Match:
    """The same; raises NoMatch with the nearest suggestions where it is none for certain."""
    found = match(intent, tags, mode, abilities, meaning)
    if found is None:
        tagged = [one for one in abilities if has_tags(one, set(tags))] if tags else abilities
        near = suggestions(intent, tagged) if intent else [(one.name, 1.0) for one in tagged]
        extra = {"suggestions": [{"ability": ability, "score": score} for ability, score in near]}
        raise NoMatch("no ability is meant for certain; name one, or tags that only one has", extra=extra)
    return found


def has_tags(ability: Ability, wanted: set[str]) -> bool:
    """Whether one of the agents behind it has all of these tags."""
    return any(wanted <= set(one.agent.tags) for one in ability.candidates)


def suggestions(intent: str, abilities: Iterable[Ability]) -> list[tuple[str, float]]:
    """(ability, score) of those that share words with the intent, the best first; the score is the share of the
    intent's words that stand in names, descriptions and tags."""
    asked = words(intent)
    if not asked:
        return []
    scored = [(round(len(asked & _words_of(one)) / len(asked), 4), one.name) for one in abilities]
    best = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1]))
    return [(name, score) for score, name in best[:SUGGESTED]]


def words(text: str) -> set[str]:
    """Words in small letters; of scripts without spaces each pair of neighbours, or a character that stands alone."""
    text = text.lower()
    found = set(_LATIN.findall(text))
    for run in _UNSPACED.findall(text):
        found |= {run[at : at + 2] for at in range(max(1, len(run) - 1))}
    return found


def _words_of(ability: Ability) -> set[str]:
    found: set[str] | None = ability.kept.get("words")
    if found is None:
        texts = [ability.name]
        for one in ability.candidates:
            texts += [one.capability.name, one.capability.description, one.agent.display_name, *one.agent.tags]
        found = ability.kept["words"] = words(" ".join(texts))
    return found
