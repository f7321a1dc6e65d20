"""Push by a Redis stream that the agent reads: handed over, not yet received; receipt and result come by the API."""

import asyncio
import logging

from common import clock
from common.outbound import Outbound
from common.redis import RedisAway
from routing.channels import entries
from routing.channels.base import Sending
from routing.channels.envelope import request_body
from routing.states import Certainty
from routing.trip import Outcome

log = logging.getLogger(__name__)


class StreamChannel:
    """Adds the request to the instance's stream. Where Redis does not take it, the sweep adds it: the row is there."""

    def __init__(self, out: Outbound):
        pass

    async def send(self, sending: Sending) -> Outcome:
        one = sending.dispatch
        stream = (one.task.namespace, one.agent_id, one.instance_id)
        body = request_body(sending, clock.now())
        try:
            await asyncio.to_thread(entries.add, stream, one.attempt_key.hex, body)
        except RedisAway as error:
            log.info("a stream's entry is left to the sweep: %s", error)
        return Outcome("ACCEPTED", Certainty.MAYBE_RAN, clock.now(), is_unread=True)
