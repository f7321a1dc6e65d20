"""Extractive summaries: the sentences that share most with the rest of the text, with a bonus for early ones."""

import math
import re

# A full stop ends a sentence only before white space, so that 3.5 and example.com stay whole.
SENTENCE = re.compile(r".+?(?:[。！？；…]+[”’」』）]*|[.!?]+[\"')\]]*(?=\s|$)|\n+|$)", re.DOTALL)
TOKEN = re.compile(r"[a-zà-ÿ0-9]+|[\u4e00-\u9fff]+")
ABBREVIATION = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st|no|vs|etc|inc|ltd|e\.g|i\.e)\.$", re.IGNORECASE)
COMMON_WORDS = frozenset(
    TOKEN.findall(
        "a an and are as at be but by for from had has have he her his i in is it its not of on or our she so that "
        "the their them there they this to was we were which will with you your"
    )
)
DAMPING, ROUNDS, LEAD_BONUS = 0.85, 30, 0.25


def split_sentences(text: str) -> list[str]:
    """Return the sentences of an English or Chinese text, without surrounding white space."""
    sentences: list[str] = []
    for match in SENTENCE.finditer(text):
        piece = match.group().strip()
        if piece and sentences and ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + piece
        elif piece:
            sentences.append(piece)
    return sentences


def tokens(sentence: str) -> set[str]:
    """Return the distinct words of a sentence, and character pairs where it is Chinese."""
    found: set[str] = set()
    for token in TOKEN.findall(sentence.lower()):
        if token[0] >= "\u4e00":
            found.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        elif token not in COMMON_WORDS:
            found.add(token)
    return found


def summarise(text: str, max_sentences: int) -> list[str]:
    """Return at most `max_sentences` sentences of the text, in their original order."""
    sentences = split_sentences(text)
    if len(sentences) <= max_sentences:
        return sentences
    scores = rank([tokens(sentence) for sentence in sentences])
    weighted = [score * (1 + LEAD_BONUS / (1 + place)) for place, score in enumerate(scores)]
    best = sorted(range(len(sentences)), key=lambda place: (-weighted[place], place))[:max_sentences]
    return [sentences[place] for place in sorted(best)]


def rank(bags: list[set[str]]) -> list[float]:
    """Return a centrality score per sentence by TextRank (Mihalcea and Tarau, 2004) over shared tokens."""
    links = [[similarity(a, b) if a is not b else 0.0 for b in bags] for a in bags]
    totals = [sum(row) for row in links]
    scores = [1.0] * len(bags)
    for _ in range(ROUNDS):
        shares = [score / total if total else 0.0 for score, total in zip(scores, totals, strict=True)]
        scores = [
            1 - DAMPING + DAMPING * sum(weight * share for weight, share in zip(row, shares, strict=True) if weight)
            for row in links
        ]
    return scores


def similarity(first: set[str], second: set[str]) -> float:
    """Return the number of shared tokens over the logarithms of both sizes."""
    shared = len(first & second)
    return shared / (math.log(len(first) + 1) + math.log(len(second) + 1)) if shared else 0.0
