"""Active health checks: one file a kind, one line in the table, one test file.

A kind is `async probe(target, out)`; it gives what is wrong, or an empty text for healthy, or Hollow. Raising
OutboundError or OSError says the same as a text; CannotProbe says that the check itself cannot be made, which is no
fault of the instance.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from importlib import import_module

from common.encoding import clean_text
from common.outbound import Outbound, OutboundError
from registry.probes.base import CannotProbe, Hollow, Result, Target

log = logging.getLogger(__name__)

REASON_LIMIT = 500

KINDS = (  # each is the module of its name here, "-" as "_", with a function `probe`
    "tcp",
    "http",
    "jsonrpc",
    "grpc",
    "command",
    "synthetic",
)

REGISTRY: dict[str, Callable[[Target, Outbound], Awaitable[str | Hollow]]] = {
    kind: import_module(f"{__name__}.{kind.replace('-', '_')}").probe for kind in KINDS
}

__all__ = ["REGISTRY", "CannotProbe", "Result", "Target", "run"]


async def run(target: Target, out: Outbound) -> Result:
    """Probe once, within the target's time limit. Raises nothing."""
    started = time.perf_counter()
    ok: bool | None = False
    hollow = False
    try:
        async with asyncio.timeout(target.timeout_s):
            said = await REGISTRY[target.kind](target, out)
        hollow = isinstance(said, Hollow)
        reason = said.reason if isinstance(said, Hollow) else said
        ok = hollow or not reason
    except TimeoutError:
        reason = f"no full answer within {target.timeout_s:g} s"
    except OutboundError as error:
        reason = f"{error.kind}: {error.message}"
    except CannotProbe as error:
        ok, reason = None, str(error)
    except OSError as error:
        reason = f"UNREACHABLE: {error.strerror or type(error).__name__}"
    except Exception as error:
        log.exception("a probe of kind %s failed by itself", target.kind)
        ok, reason = None, f"the probe failed by itself ({type(error).__name__})"
    return Result(ok, (time.perf_counter() - started) * 1000, clean_text(reason, REASON_LIMIT), hollow)
