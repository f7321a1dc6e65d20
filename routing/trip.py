"""The values that travel between the steps of a task's trip: accept → claim → choose → send → decide → settle.

Plain data without ORM, clock or socket; `services` make and take them, `policy` and `channels` compute with them.
Times are aware datetimes in UTC, durations integers in milliseconds.
"""

import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import Any

from routing.states import Certainty, TaskError, TaskState


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a submit; `replayed` when an earlier task answers for the same correlationId."""

    task_id: uuid.UUID
    trace_id: str
    correlation_id: str | None
    state: str
    replayed: bool = False


@dataclass(slots=True)
class Claimed:
    """A task that this worker holds: its row's facts and its request's bytes."""

    task_id: uuid.UUID
    namespace: str
    namespace_version: int
    client: str
    ability: str
    correlation_id: str | None
    trace_id: str
    traceparent: str
    session_id: str | None
    call_path: list[str]
    priority: int
    state: str  # RECEIVED or RETRY_WAIT
    seq: int
    attempts: int  # attempts used so far
    max_attempts: int
    strikes: int  # times that taking it up broke off before an attempt
    round: int
    idempotency_key: str
    created_at: dt.datetime
    due_at: dt.datetime
    expires_at: dt.datetime
    deadline_at: dt.datetime
    timings: dict[str, int]
    waited_for: str | None  # reason of the last WAITING event, so that it is written once, not each second
    request: bytes
    fallback: dict[str, Any] | None = None  # as in `Substitute`, while one has it

    @property
    def serving(self) -> str:
        """The ability that is to serve it: its own, or a substitute."""
        return str(self.fallback["ability"]) if self.fallback else self.ability


@dataclass(slots=True)
class Dispatch:
    """A chosen instance for a claimed task: becomes the attempt row before anything is sent."""

    task: Claimed
    attempt_key: uuid.UUID
    agent_id: str
    instance_id: str
    capability: str
    channel: str
    decision: dict[str, Any]
    deadline_at: dt.datetime  # of this attempt
    routed_at: dt.datetime
    sent_at: dt.datetime
    timings: dict[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return self.task.attempts + 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a channel says of one send. `kind` is one of

    SUCCEEDED  data and usage are set
    FAILED     code, message, retryable (None = by the rules) and details are set
    ACCEPTED   the agent has it (202): the result comes later; poll_url when it must be asked for
    LOST       our own side lost it, or UNACKNOWLEDGED: the agent never said that it has it; as FAILED otherwise
    """

    kind: str
    certainty: Certainty
    at: dt.datetime
    received_at: dt.datetime | None = None
    data: bytes | None = None  # JSON, byte for byte where the agent's bytes were usable
    usage: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None
    code: TaskError | None = None
    message: str = ""
    retryable: bool | None = None
    retry_after_ms: int | None = None
    details: dict[str, Any] | None = None
    poll_url: str | None = None
    is_unread: bool = False  # ACCEPTED by what the agent reads from, and not by the agent yet
    timings: dict[str, int] = field(default_factory=dict)  # poolWaitMs, connectMs, agentMs


@dataclass(frozen=True, slots=True)
class Succeed:
    """Decision: the task ends with the attempt's data."""


@dataclass(frozen=True, slots=True)
class Await:
    """Decision: the agent works on its own until the attempt's deadline; nothing is held."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Decision: another attempt at `at`."""

    at: dt.datetime
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Decision: the task ends without a result."""

    state: TaskState  # FAILED, TIMEOUT or CANCELLED
    code: TaskError
    message: str
    retryable: bool = False
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Substitute:
    """Decision: another ability's agents take over at once. `fallback` is kept with the task: {"step", "ability",
    "since" (attempts before it), "down" (dependencies that failed), "cause" (the end that it would have had)}."""

    fallback: dict[str, Any]
    skipped: tuple[dict[str, Any], ...] = ()  # {"ability", "reason"} of substitutes that were passed over

    @property
    def detail(self) -> dict[str, Any]:
        """What its event says."""
        return {"fallback": self.fallback, "reason": self.fallback["cause"]["code"], "skipped": self.skipped}


@dataclass(frozen=True, slots=True)
class Degrade:
    """Decision: the task ends well, with `data` (JSON) that no agent gave just now; `by` tells where from."""

    data: bytes
    by: dict[str, Any]
    cause: str
    skipped: tuple[dict[str, Any], ...] = ()

    @property
    def detail(self) -> dict[str, Any]:
        """What its event says."""
        return {"degradedBy": self.by, "reason": self.cause, "skipped": self.skipped}


Decision = Succeed | Await | Retry | GiveUp


@dataclass(frozen=True, slots=True)
class Settlement:
    """One attempt's end, or one task's end without an attempt (`number` 0), with what follows from it.

    `worker` matches the boot id that holds the attempt, `attempt_key` the key that a report by API carried;
    one of the two is set. The task must still be open with `attempts = number`, else nothing changes.
    """

    task_id: uuid.UUID
    number: int
    decision: Succeed | Retry | GiveUp | Substitute | Degrade
    outcome: Outcome | None
    now: dt.datetime
    worker: uuid.UUID | None = None
    attempt_key: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settlement did: `applied` is False when somebody else was first."""

    task_id: uuid.UUID
    applied: bool
    state: str | None = None
    callbacks: tuple[Any, ...] = ()  # callbacks.services.Due rows leased to this worker, to deliver now
