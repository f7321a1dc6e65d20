import asyncio
import sys

import grpc  # type: ignore[import-untyped]
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from tests.registry.probes.probing import against, answer, probed

STATUS = health_pb2.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):
    def __init__(self, statuses, refuse=None, hang=False):
        self.statuses, self.refuse, self.hang, self.peers = statuses, refuse, hang, []

    async def Check(self, request, context):
        self.peers.append(context.peer())
        if self.hang:
            await asyncio.sleep(30)
        if self.refuse:
            await context.abort(self.refuse, "no")
        if request.service not in self.statuses:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return STATUS(status=self.statuses[request.service])


def checked(health=None, times=1, **more):
    """The result of probing a gRPC server, with this health service or none."""

    async def trip():
        server = grpc.aio.server()
        if health is not None:
            health_pb2_grpc.add_HealthServicer_to_server(health, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            for _ in range(times):
                result = await probed("grpc", f"http://127.0.0.1:{port}", **more)
            return result
        finally:
            await server.stop(0)

    return asyncio.run(trip())


def test_serving_is_healthy():
    result = checked(Health({"": STATUS.SERVING}))
    assert result.ok is True, result.reason


@pytest.mark.parametrize("status", ["UNKNOWN", "NOT_SERVING", "SERVICE_UNKNOWN"])
def test_any_other_status_is_unhealthy_and_named(status):
    result = checked(Health({"": STATUS.ServingStatus.Value(status)}))
    assert result.ok is False
    assert result.reason.startswith(f"{status}: ")


def test_every_status_has_its_own_reason():
    reasons = {checked(Health({"": value})).reason for value in (0, 1, 2, 3, 7)}
    assert len(reasons) == 5


def test_the_named_service_counts_and_not_the_server():
    health = Health({"": STATUS.SERVING, "a": STATUS.NOT_SERVING})
    assert checked(health, service="a").reason == "NOT_SERVING: the service does not serve (a)"
    assert checked(health, service="b").reason.startswith("gRPC NOT_FOUND: the server knows no such service")


def test_a_server_without_health_service_is_unhealthy():
    assert checked().reason.startswith("gRPC UNIMPLEMENTED: the server offers no health service")


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.PERMISSION_DENIED])
def test_an_error_is_unhealthy_by_its_code(code):
    assert checked(Health({}, refuse=code)).reason.startswith(f"gRPC {code.name}: ")


def test_no_answer_in_time_is_unhealthy():
    result = checked(Health({}, hang=True), timeout_s=0.3)
    assert result.ok is False
    assert "time" in result.reason or "within" in result.reason
    assert result.ms < 1500


def test_an_http_1_server_is_unhealthy():
    result = against(lambda _: answer(), "grpc")
    assert result.ok is False
    assert result.reason


def test_plain_text_where_tls_is_declared_is_unhealthy():
    async def trip():
        server = grpc.aio.server()
        health_pb2_grpc.add_HealthServicer_to_server(Health({"": STATUS.SERVING}), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await probed("grpc", f"https://127.0.0.1:{port}", timeout_s=1.0)
        finally:
            await server.stop(0)

    assert asyncio.run(trip()).ok is False


def test_each_probe_has_a_channel_of_its_own_that_is_closed():
    health = Health({"": STATUS.SERVING})
    checked(health, times=3)
    assert len(set(health.peers)) == 3


def test_a_forbidden_address_is_not_connected_to():
    assert asyncio.run(probed("grpc", "http://10.0.0.1:50051")).reason.startswith("BLOCKED")


def test_without_the_extra_the_probe_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc_health.v1", None)
    result = asyncio.run(probed("grpc", "http://127.0.0.1:1"))
    assert (result.ok, "requirements-grpc.txt" in result.reason) == (None, True)
