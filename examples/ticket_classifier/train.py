"""Train the ticket model and print its accuracy on unseen tickets: `python -m examples.ticket_classifier.train`."""

import csv
from pathlib import Path

from examples.ticket_classifier.model import TicketModel

DATA = Path(__file__).parent.parent / "data"
MODEL_PATH = Path(__file__).with_name("model.json")
Row = tuple[str, str, str]  # category, language, text


def read_rows(path: Path) -> list[Row]:
    """Return the (category, language, text) rows of a tab-separated file with a header line."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["category"], row["language"], row["text"]) for row in rows]


def train(rows: list[Row]) -> TicketModel:
    """Return a model fitted to the rows; the same rows give the same model."""
    pairs = [(category, text) for category, _, text in rows]
    model = TicketModel.empty(pairs, min_documents=1)
    model.fit(pairs, epochs=25, rate=1.0, decay=0.05, seed=2024)
    return model


def accuracy(model: TicketModel, rows: list[Row]) -> dict[str, float]:
    """Return the share of rows whose most probable category is the expected one, by language."""
    right: dict[str, list[bool]] = {}
    for category, language, text in rows:
        right.setdefault(language, []).append(next(iter(model.classify(text))) == category)
    return {language: sum(hits) / len(hits) for language, hits in right.items()}


def main() -> None:
    """Train, save and print the held-out accuracy by language."""
    train(read_rows(DATA / "train.tsv")).save(MODEL_PATH)
    held_out = read_rows(DATA / "held_out.tsv")
    for language, share in accuracy(TicketModel.load(MODEL_PATH), held_out).items():
        count = sum(row[1] == language for row in held_out)
        print(f"{language}: {share:.1%} of {count} held-out tickets")
    print(f"{MODEL_PATH.name}: {MODEL_PATH.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
