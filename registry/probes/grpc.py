"""Healthy when the gRPC health service (grpc.health.v1) says SERVING, and nothing else."""

from typing import Any

from yarl import URL

from common.outbound import Outbound
from registry.probes.base import CannotProbe, Target
from registry.probes.connect import addresses_of, place_of

MISSING = "gRPC probes need the extra packages: pip install -r requirements-grpc.txt"
CODES = {
    "NOT_FOUND": "the server knows no such service",
    "UNIMPLEMENTED": "the server offers no health service",
    "DEADLINE_EXCEEDED": "no answer in time",
    "UNAVAILABLE": "no gRPC connection",
}
STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
STATUSES = {
    "NOT_SERVING": "the service does not serve",
    "UNKNOWN": "the service does not know its status",
    "SERVICE_UNKNOWN": "the server knows no such service",
}


async def probe(target: Target, out: Outbound) -> str:
    """One Check on a channel of its own, which is closed afterwards; https in the address means TLS."""
    try:
        import grpc  # type: ignore[import-untyped]
        from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
    except ImportError:
        raise CannotProbe(MISSING) from None
    url = place_of(target.url)
    host, port = (await addresses_of(url))[0]
    async with _channel(grpc, url, f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}") as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=target.service),
                timeout=target.timeout_s,
                metadata=tuple((name.lower(), value) for name, value in target.headers.items()),
            )
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            return f"gRPC {code}: {CODES.get(code, 'the call failed')} ({error.details()})"
    return _wrong(answer.status, target.service or "the server as a whole")


def _wrong(status: int, asked: str) -> str:
    name = STATUS_NAMES.get(status, str(status))
    return "" if name == "SERVING" else f"{name}: {STATUSES.get(name, 'an unknown status')} ({asked})"


def _channel(grpc: Any, url: URL, address: str) -> Any:
    """A channel to the very address that was judged; the name is what TLS verifies."""
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),  # a closed channel's connection is not kept for the next probe
        ("grpc.max_receive_message_length", 65_536),
        ("grpc.default_authority", f"{url.host}:{url.port}"),
    ]
    if url.scheme == "https":
        options.append(("grpc.ssl_target_name_override", url.host))
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(), options=options)
    return grpc.aio.insecure_channel(address, options=options)
