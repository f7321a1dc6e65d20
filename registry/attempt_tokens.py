"""Result tokens: a bearer good for one attempt's receipt, progress and result, and for nothing else.

A token carries the task id and the attempt key under a signature, so checking it needs no row; whether the attempt is
still open is the services' question.
"""

import uuid

from django.core.signing import BadSignature, Signer

from common.ids import parse_id

PREFIX = "art_"


def issue(task_id: uuid.UUID, attempt_key: str) -> str:
    """The token of one attempt."""
    return PREFIX + _signer().sign(f"{task_id}.{attempt_key}")


def verify(token: str) -> tuple[uuid.UUID, str] | None:
    """(task id, attempt key) of a token that this installation issued, else None."""
    if not token.startswith(PREFIX) or not token.isascii():
        return None
    try:
        task_id, _, attempt_key = _signer().unsign(token[len(PREFIX) :]).partition(".")
    except BadSignature:
        return None
    known = parse_id(task_id)
    return (known, attempt_key) if known and attempt_key else None


def _signer() -> Signer:
    return Signer(salt="registry.attempt_tokens", sep="~")
