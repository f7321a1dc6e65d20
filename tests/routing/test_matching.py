"""From a question to an ability, and suggestions where none is meant for certain."""

import pytest

from routing.matching import Match, match, suggestions, words
from routing.snapshot import Ability, CapabilityView
from tests.routing.views import ability, candidate


def named(name, *tags, description=""):
    capability = CapabilityView("c", description=description)
    view = ability(candidate(f"agent-{name}", tags=tags, capability=capability))
    return Ability(name, False, view.route, view.candidates)


TICKETS = named("ticket.classify", "support", "nlp", description="Classifies a support ticket by category")
BILLS = named("bill.read", "finance", "nlp", description="Reads invoices")
CHINESE = named("translate", "text", description="把文字翻译成英文")
ALL = [BILLS, TICKETS, CHINESE]


@pytest.mark.parametrize(
    ("intent", "tags", "mode", "expected"),
    [
        ("bill.read", (), "auto", (BILLS, "exact")),
        ("bill.read", (), "exact", (BILLS, "exact")),
        ("read this bill", (), "exact", None),
        ("read this bill", ("finance",), "auto", (BILLS, "tag")),
        (None, ("support", "nlp"), "tag", (TICKETS, "tag")),
        (None, ("nlp",), "tag", None),
        ("bill.read", ("nlp",), "tag", None),
        ("read this bill", (), "auto", None),
        ("bill.read", (), "semantic", None),
    ],
)
def test_a_question_finds_the_ability_that_it_names_or_that_alone_has_the_tags(intent, tags, mode, expected):
    found = match(intent, tags, mode, ALL)
    assert (found and (found.ability, found.kind)) == expected


def test_what_matches_by_meaning_is_asked_among_those_with_the_tags():
    asked = []

    def meaning(intent, abilities):
        asked.append((intent, abilities))
        return Match(TICKETS, "semantic", 0.9)

    assert match("sort my mail", ("nlp",), "auto", ALL, meaning) == Match(TICKETS, "semantic", 0.9)
    assert asked == [("sort my mail", [BILLS, TICKETS])]


def test_suggestions_share_words_with_the_intent_and_the_nearest_comes_first():
    assert suggestions("Classify a support ticket", ALL) == [("ticket.classify", 1.0)]
    assert [name for name, _ in suggestions("classifies invoices by category", ALL)] == ["ticket.classify", "bill.read"]
    assert suggestions("weather tomorrow", ALL) == suggestions("!?", ALL) == []


def test_chinese_is_compared_by_pairs_of_characters():
    assert words("翻译文本 now") == {"翻译", "译文", "文本", "now"}
    assert suggestions("请翻译这段文字", ALL)[0][0] == "translate"
