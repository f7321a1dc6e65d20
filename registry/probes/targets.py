"""From a manifest and an instance to the probe to make. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from yarl import URL

from registry.probes.base import CannotProbe, Sample, Target

TIMEOUT_MS = 5_000
_SECRET = re.compile(r"\$\{secret:([^}]*)\}")
_WEBSOCKET = re.compile("^ws", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be probed: an instance's own addresses, and its agent's `spec` (the manifest's). `warned` = its
    owner was told that the health check is hollow."""

    namespace: str
    agent_id: str
    invoke_url: str
    health_url: str
    spec: Mapping[str, Any]
    warned: bool = False

    @property
    def probe(self) -> Mapping[str, Any]:
        """The manifest's probe part, {} when none is given."""
        return self.spec.get("probe") or {}

    @property
    def invoke(self) -> str:
        """The invoke address as an http one; a websocket begins as an http request."""
        return _WEBSOCKET.sub("http", self.invoke_url or self._endpoint("invoke"))

    @property
    def health(self) -> str:
        return self.health_url or self._endpoint("health")

    @property
    def kind(self) -> str:
        """The type given, else http on the health address, else tcp."""
        return self.probe.get("type") or ("http" if self.health or self.probe.get("path") else "tcp")

    @property
    def timeout_s(self) -> float:
        return float(self.probe.get("timeoutMs", TIMEOUT_MS)) / 1000

    def retries(self, default: int) -> int:
        return int(self.probe.get("retries", default))

    def interval_s(self, default_ms: int) -> float:
        return float(self.probe.get("intervalMs", default_ms)) / 1000

    @property
    def has_address(self) -> bool:
        """Whether there is anything to probe; a command needs no address."""
        return bool(self.invoke or self.health or self.kind == "command")

    @property
    def names_secrets(self) -> bool:
        return any(_SECRET.search(value) for value in (self.probe.get("headers") or {}).values())

    def _endpoint(self, name: str) -> str:
        return (self.spec.get("endpoints") or {}).get(name) or ""


def target_of(
    subject: Subject,
    *,
    secrets: Mapping[str, str],
    output_schemas: Mapping[str, Any],
    signing: tuple[str, str] | None,
) -> Target:
    """The probe to make; `output_schemas` by capability. Raises CannotProbe (a secret that is not set)."""
    probe, kind = subject.probe, subject.kind
    sample = _sample(subject, output_schemas, signing) if kind == "synthetic" else None
    return Target(
        kind=kind,
        url=_url(subject, sample),
        timeout_s=subject.timeout_s,
        headers={name: _filled(value, secrets) for name, value in (probe.get("headers") or {}).items()},
        expect=probe.get("expect") or {},
        rpc=probe.get("method") or "ping",
        service=probe.get("service") or "",
        command=probe.get("command") or "",
        sample=sample,
        has_dependencies=any(one.get("dependencies") for one in subject.spec.get("capabilities") or ()),
    )


def _url(subject: Subject, sample: Sample | None) -> str:
    """The address: the health one, else (and for synthetic) the invoke one, with the probe's own path and port."""
    if sample is not None or subject.kind == "synthetic":
        spec = _capability(subject) or {}
        return _below(subject.invoke, spec.get("path") or "/")
    given = subject.health or subject.invoke
    if not given:
        return ""
    path, port = subject.probe.get("path"), subject.probe.get("port")
    url = URL(given, encoded=True)
    if port is not None:
        url = url.with_port(port)
    return str(url) if path is None else f"{url.origin()}{path}"


def _below(base: str, path: str) -> str:
    """As tasks are sent: the capability's path below the invoke address, before its query."""
    if path == "/":
        return base
    start, mark, query = base.partition("?")
    return f"{start.rstrip('/')}/{path.lstrip('/')}{mark}{query}"


def _filled(value: str, secrets: Mapping[str, str]) -> str:
    def secret(match: re.Match[str]) -> str:
        if match[1] not in secrets:
            raise CannotProbe(f"the secret {match[1]!r} that a probe header names is not set")
        return secrets[match[1]]

    return _SECRET.sub(secret, value)


def _sample(subject: Subject, output_schemas: Mapping[str, Any], signing: tuple[str, str] | None) -> Sample | None:
    spec = _capability(subject)
    if spec is None:
        return None
    name = spec["name"]
    return Sample(
        agent_id=subject.agent_id,
        namespace=subject.namespace,
        capability=name,
        payload=spec["requestSample"],
        method=spec.get("method") or "POST",
        stateful=bool(spec.get("stateful")),
        # A mapped answer is the platform's own form, which the agent does not give by itself.
        output=None if spec.get("responseMapping") else output_schemas.get(name),
        signing=signing,
    )


def _capability(subject: Subject) -> Mapping[str, Any] | None:
    """The first capability with a sample that surely changes nothing; `probe.method` may name another."""
    named = subject.probe.get("method")
    return next((one for one in _harmless(subject) if not named or one["name"] == named), None)


def _harmless(subject: Subject) -> Iterable[Mapping[str, Any]]:
    for spec in subject.spec.get("capabilities") or ():
        if spec.get("sideEffects") is False and spec.get("requestSample") is not None:
            yield spec
