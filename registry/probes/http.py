"""Healthy when GET answers with the expected status and a body that says nothing bad."""

from common.outbound import Outbound
from registry.probes.base import Hollow, Target
from registry.probes.body import KEPT_BYTES, says_no_parts, wrong_body, wrong_status

CONNECT_TIMEOUT_S = 0.8  # as for tasks: a probe must not be more patient than they are


async def probe(target: Target, out: Outbound) -> str | Hollow:
    """One GET; redirects are not followed."""
    answer = await out.request(
        "GET",
        target.url,
        headers={"Accept": "application/json, */*;q=0.5", **target.headers},
        connect_timeout_s=min(CONNECT_TIMEOUT_S, target.timeout_s),
        total_timeout_s=target.timeout_s,
        max_bytes=KEPT_BYTES,
        keep_bytes=KEPT_BYTES,
    )
    if wrong := wrong_status(answer.status, target.expect.get("status")) or wrong_body(answer, target.expect):
        return wrong
    return Hollow() if target.has_dependencies and says_no_parts(answer) else ""
