"""The values that callbacks take and give: no task, no ORM, no socket."""

import datetime as dt
import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewCallback:
    """A message to be told. `id` is made by the caller (common.ids.sibling of the subject) so a repeat is harmless."""

    id: uuid.UUID
    subject_id: uuid.UUID
    namespace: str
    client: str
    url: str
    auth_token: bytes | None  # encrypted
    traceparent: str
    body: bytes
    schedule: str
    created_at: dt.datetime
    follows: bool = False  # told in addition to, and after, what was told before of the same subject


@dataclass(frozen=True, slots=True)
class Due:
    """A callback leased to this process, to deliver now; `number` is this try, `series` its place in the schedule."""

    id: uuid.UUID
    subject_id: uuid.UUID
    namespace: str
    client: str
    url: str
    auth_token: bytes | None
    traceparent: str
    body: bytes
    schedule: str
    number: int
    series: int


@dataclass(frozen=True, slots=True)
class Tried:
    """How one delivery went."""

    due: Due
    at: dt.datetime
    took_ms: int
    status: int | None  # HTTP status; None = none came
    error: str | None  # None = delivered
    permanent: bool  # 410 or a refused address: no further try
    answer: bytes  # capped at 64 KiB
    retry_after_s: int | None
