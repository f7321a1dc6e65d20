"""An extractive summariser served as an agent: `python -m examples.summariser.agent`."""

import asyncio
from pathlib import Path
from typing import Any

from examples.agent_runtime import serve
from examples.agent_server import PayloadError
from examples.summariser.summary import split_sentences, summarise, tokens

HERE = Path(__file__).parent
DEFAULT_SENTENCES, MAX_SENTENCES, MAX_CHARACTERS = 3, 20, 50_000
SAMPLE_TEXT = "The printer on floor two is broken. The printer needs a new part. Lunch was good."


def invoke(payload: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (data, usage) for a payload {text, maxSentences?}; raises PayloadError naming the wrong field."""
    text, limit = payload.get("text"), payload.get("maxSentences", DEFAULT_SENTENCES)
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_CHARACTERS:
        raise PayloadError(f"/text must be a string of 1 to {MAX_CHARACTERS} characters")
    if type(limit) is not int or not 1 <= limit <= MAX_SENTENCES:
        raise PayloadError(f"/maxSentences must be a whole number from 1 to {MAX_SENTENCES}")
    chosen = summarise(text, limit)
    summary = "".join(sentence if sentence[-1] in "。！？；…" else sentence + " " for sentence in chosen).strip()
    data = {"summary": summary, "sentences": chosen, "ratio": round(len(summary) / len(text), 4)}
    return data, {"tokens": sum(len(tokens(sentence)) for sentence in split_sentences(text))}


def is_healthy() -> bool:
    """Whether a fixed text still loses the sentence that has nothing to do with the others."""
    return "Lunch was good." not in summarise(SAMPLE_TEXT, 2)


def main() -> None:
    """Serve until told to stop."""
    asyncio.run(serve(HERE / "manifest.yaml", invoke, is_healthy))


if __name__ == "__main__":
    main()
