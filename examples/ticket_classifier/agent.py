"""A ticket classifier served as an agent: `python -m examples.ticket_classifier.agent`."""

import asyncio
from pathlib import Path
from typing import Any

from examples.agent_runtime import serve
from examples.agent_server import PayloadError
from examples.ticket_classifier.model import TicketModel, features

HERE = Path(__file__).parent
SAMPLE_TEXT, SAMPLE_CATEGORY = "Cannot log in, my password is refused", "login"


class TicketClassifier:
    """Answers payloads {ticketTitle, ticketContent, channel?} with category, confidence and the runners-up."""

    def __init__(self, model: TicketModel):
        self._model = model

    def invoke(self, payload: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (data, usage); raises PayloadError for a ticket without text."""
        text = " ".join(required_text(payload, field) for field in ("ticketTitle", "ticketContent")).strip()
        if not text:
            raise PayloadError("ticketTitle and ticketContent are both empty")
        shares = [(category, round(share, 4)) for category, share in self._model.classify(text).items()]
        (category, confidence), *others = shares
        runners_up = [{"category": name, "confidence": share} for name, share in others[:2]]
        data = {"category": category, "confidence": confidence, "alternatives": runners_up}
        return data, {"tokens": len(features(text))}

    def is_healthy(self) -> bool:
        """Whether the model still puts a known ticket in its category."""
        return next(iter(self._model.classify(SAMPLE_TEXT))) == SAMPLE_CATEGORY


def required_text(payload: dict[str, Any], field: str) -> str:
    """Return a string field of the payload; raises PayloadError when it is missing or something else."""
    value = payload.get(field)
    if not isinstance(value, str):
        raise PayloadError(f"/{field} must be a string")
    return value


def main() -> None:
    """Serve until told to stop."""
    classifier = TicketClassifier(TicketModel.load(HERE / "model.json"))
    asyncio.run(serve(HERE / "manifest.yaml", classifier.invoke, classifier.is_healthy))


if __name__ == "__main__":
    main()
