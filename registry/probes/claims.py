"""Who takes an instance to be probed holds a claim on it; a newer claim makes an older one's result void."""

from dataclasses import dataclass
from datetime import datetime

from registry.probes.base import Result, Target


@dataclass(frozen=True, slots=True)
class Claim:
    """One instance taken to be probed. `good_for_s` = how long it may wait for its turn; `problem` = why it cannot be
    probed at all, and then there is no target; `warned` = the owner was told that the check is hollow."""

    instance_pk: int
    at: datetime
    failures: int
    successes: int
    retries: int
    interval_s: float
    good_for_s: float
    target: Target | None
    problem: str = ""
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A claim and what its probe found."""

    claim: Claim
    result: Result
