"""Hooks: made, rotated, tested, removed. What fires them is in `hook_events`, how they are told in `firings`."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from common.clock import rfc3339
from common.errors import Invalid, NotFound
from common.signing import new_webhook_secret
from registry import webhook_secrets
from registry.addresses import wrong_address
from registry.hooks.messages import TEST
from registry.models import Agent, Hook, HookFiring, Namespace
from registry.services.audit import Author
from registry.services.hook_events import firing_of

DEFAULT_OVERLAP_S = 86_400


@dataclass(frozen=True)
class Issued:
    """A hook with its secret in clear, for the one answer that shows it; a command has none."""

    hook: Hook
    secret: str | None

    def document(self) -> dict[str, Any]:
        return {**describe(self.hook), **({"secret": self.secret} if self.secret else {})}


def create(
    namespace: str,
    *,
    events: Sequence[str],
    agent_id: str | None = None,
    url: str = "",
    command: str = "",
    actor: str,
    now: datetime,
    ip: str = "",
) -> Issued:
    """Make a hook of one agent, or of all in the namespace. Raises NotFound (namespace) and Invalid."""
    wrong = problems(url, command)
    if wrong:
        raise Invalid(wrong)
    secret = new_webhook_secret() if url else None
    with transaction.atomic():
        if not Namespace.objects.filter(pk=namespace).exists():
            raise NotFound
        hook = Hook.objects.create(
            namespace_id=namespace,
            agent=_agent(namespace, agent_id) if agent_id else None,
            events=list(dict.fromkeys(events)),
            url=url,
            command=command,
            secrets=webhook_secrets.sealed(secret) if secret else b"",
            created_at=now,
            created_by=actor[:200],
        )
        _did(Author(actor, now, ip), "hook.create", hook, after=_audited(hook))
    return Issued(hook, secret)


def rotate(
    namespace: str, hook_id: uuid.UUID, *, overlap_seconds: int = DEFAULT_OVERLAP_S, actor: str, now: datetime,
    ip: str = "",
) -> Issued:  # fmt: skip
    """Give a hook a new secret; until the overlap ends both sign. Raises NotFound, and Invalid for a command's."""
    until, secret = now + timedelta(seconds=overlap_seconds), new_webhook_secret()
    with transaction.atomic():
        hook = _locked(namespace, hook_id)
        if not hook.url:
            raise Invalid([_error("", "NO_SECRET", "a hook that runs a command has no secret")])
        before = {**_audited(hook), "oldUntil": None}
        hook.secrets = webhook_secrets.rotated(hook.secrets, secret, until=until, now=now)
        hook.save(update_fields=["secrets"])
        after = {**_audited(hook), "oldUntil": rfc3339(until)}
        _did(Author(actor, now, ip), "hook.rotate", hook, before=before, after=after)
    return Issued(hook, secret)


def remove(namespace: str, hook_id: uuid.UUID, *, actor: str, now: datetime, ip: str = "") -> None:
    """Remove a hook with all its firings; what is being sent may still arrive. Raises NotFound."""
    with transaction.atomic():
        hook = _locked(namespace, hook_id)
        before = _audited(hook)
        _did(Author(actor, now, ip), "hook.remove", hook, before=before)
        hook.delete()


def send_test(namespace: str, hook_id: uuid.UUID, *, actor: str, now: datetime, ip: str = "") -> HookFiring:
    """Have the hook told of nothing, once; a stopped one goes on when that succeeds. Raises NotFound."""
    with transaction.atomic():
        hook = _locked(namespace, hook_id)
        agent_id = hook.agent.agent_id if hook.agent else ""
        firing = firing_of(
            hook.pk, TEST, f"test:{uuid.uuid4().hex}", namespace, agent_id, {"hookId": str(hook.pk)}, now
        )
        firing.save(force_insert=True)
        _did(Author(actor, now, ip), "hook.test", hook, after={"firingId": str(firing.pk)})
    return firing


def describe(hook: Hook) -> dict[str, Any]:
    """A hook as the API shows it, without its secret."""
    return {
        "hookId": str(hook.pk),
        "namespace": hook.namespace_id,
        "agentId": hook.agent.agent_id if hook.agent else None,
        "events": hook.events,
        "url": hook.url or None,
        "command": hook.command or None,
        "createdAt": rfc3339(hook.created_at),
        "createdBy": hook.created_by,
        "failingSince": rfc3339(hook.failing_since),
        "lastError": hook.last_error or None,
        "stoppedAt": rfc3339(hook.stopped_at),
    }


def problems(url: str, command: str) -> list[dict[str, str]]:
    """What is wrong with whom a hook would tell, with pointers."""
    if bool(url) == bool(command):
        return [_error("/command" if url else "/url", "ONE_OF", "give either url or command")]
    wrong = wrong_address(url) if url else None
    if wrong:
        return [_error("/url", "ADDRESS", wrong)]
    known = sorted(settings.REACH_HOOK_COMMANDS)
    if command and command not in known:
        there = "there is " + ", ".join(known) if known else "that is empty"
        return [_error("/command", "UNKNOWN_COMMAND", f"is not in REACH_HOOK_COMMANDS; {there}")]
    return []


def _error(pointer: str, code: str, message: str) -> dict[str, str]:
    return {"pointer": pointer, "code": code, "message": message}


def _agent(namespace: str, agent_id: str) -> Agent:
    agent = Agent.objects.filter(namespace=namespace, agent_id=agent_id, deleted_at=None).first()
    if agent is None:
        raise Invalid([_error("/agentId", "UNKNOWN_AGENT", "no agent of that name is registered here")])
    return agent


def _locked(namespace: str, hook_id: uuid.UUID) -> Hook:
    rows = Hook.objects.select_for_update(of=("self",)).select_related("agent")
    hook = rows.filter(namespace=namespace, pk=hook_id).first()
    if hook is None:
        raise NotFound
    return hook


def _audited(hook: Hook) -> dict[str, Any]:
    """Of the address only where it leads: its path is often as good as a password."""
    place = urlsplit(hook.url)
    known = describe(hook)
    return {name: known[name] for name in ("agentId", "events", "command")} | {
        "url": f"{place.scheme}://{place.netloc}" if hook.url else None
    }


def _did(author: Author, action: str, hook: Hook, **what: Any) -> None:
    author.did(action, f"hook:{hook.pk}", namespace=hook.namespace_id, **what)
