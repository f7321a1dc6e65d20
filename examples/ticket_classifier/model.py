"""Softmax regression over word and character n-grams: small, pure Python, good enough for short tickets."""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

LATIN_WORD = re.compile(r"[a-zà-ÿ0-9']+")
HAN_RUN = re.compile(r"[\u4e00-\u9fff]+")


def features(text: str) -> list[str]:
    """Return the distinct n-grams of a text: words, pairs and stems for Latin script, 1 to 3 characters for Han."""
    lowered = text.lower()
    words = LATIN_WORD.findall(lowered)
    found = {f"w:{word}" for word in words}
    found.update(f"p:{first} {second}" for first, second in pairwise(words))
    found.update(f"s:{word[:5]}" for word in words if len(word) > 5)
    for run in HAN_RUN.findall(lowered):
        found.update(run[i : i + size] for size in (1, 2, 3) for i in range(len(run) - size + 1))
    return sorted(found)


class TicketModel:
    """Categories and, for each known n-gram, one weight per category."""

    def __init__(self, categories: Sequence[str], bias: list[float], weights: dict[str, list[float]]):
        self.categories, self.bias, self.weights = list(categories), bias, weights

    def classify(self, text: str) -> dict[str, float]:
        """Return the probability of every category, most probable first."""
        shares = self._probabilities(self._known(text))
        return dict(sorted(zip(self.categories, shares, strict=True), key=lambda pair: -pair[1]))

    def fit(self, rows: Sequence[tuple[str, str]], epochs: int, rate: float, decay: float, seed: int) -> None:
        """Adjust the weights to (category, text) rows by gradient descent; the same seed gives the same model."""
        examples = [(self.categories.index(category), self._known(text)) for category, text in rows]
        shuffle = random.Random(seed).shuffle
        for epoch in range(epochs):
            shuffle(examples)
            for target, names in examples:
                self._step(target, names, rate / (1 + decay * epoch))

    def save(self, path: Path) -> None:
        """Write the model as JSON, weights rounded to four decimals."""
        weights = {name: [round(value, 4) for value in row] for name, row in sorted(self.weights.items())}
        document = {"categories": self.categories, "bias": [round(value, 4) for value in self.bias], "weights": weights}
        path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "TicketModel":
        """Read a model that `save` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def empty(cls, rows: Iterable[tuple[str, str]], min_documents: int) -> "TicketModel":
        """Return an untrained model of the rows' categories and of the n-grams found in enough of their texts."""
        rows = list(rows)
        counts = Counter(name for _, text in rows for name in features(text))
        categories = sorted({category for category, _ in rows})
        weights = {name: [0.0] * len(categories) for name, count in counts.items() if count >= min_documents}
        return cls(categories, [0.0] * len(categories), weights)

    def _known(self, text: str) -> list[str]:
        return [name for name in features(text) if name in self.weights]

    def _probabilities(self, names: Sequence[str]) -> list[float]:
        scale = 1 / math.sqrt(len(names) or 1)
        totals = [
            bias + scale * sum(self.weights[name][index] for name in names) for index, bias in enumerate(self.bias)
        ]
        peak = max(totals)
        exponents = [math.exp(total - peak) for total in totals]
        return [value / sum(exponents) for value in exponents]

    def _step(self, target: int, names: Sequence[str], rate: float) -> None:
        scale = 1 / math.sqrt(len(names) or 1)
        for index, probability in enumerate(self._probabilities(names)):
            change = rate * ((index == target) - probability)
            self.bias[index] += 0.1 * change
            for name in names:
                self.weights[name][index] += scale * change
