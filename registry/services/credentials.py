"""Keys: made here, shown once, kept as a hash (bearer) or encrypted (the secret that HMAC needs in clear)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from common.clock import rfc3339
from common.errors import NotFound
from common.secrets import encrypt, hash_key, new_key
from registry.credential_cache import forget_everywhere
from registry.models import Client, Credential, Namespace
from registry.principal import AGENT_SCOPES, OPERATOR_SCOPES
from registry.services import audit, changes

PREFIXES = {Credential.Kind.CLIENT: "rck", Credential.Kind.AGENT: "rak", Credential.Kind.OPERATOR: "rok"}


@dataclass(frozen=True)
class Issued:
    """A new credential in clear, for the one answer that shows it."""

    key: str
    access_key: str
    secret_key: str

    def document(self) -> dict[str, str]:
        return {"key": self.key, "accessKey": self.access_key, "secretKey": self.secret_key}


def for_agent(
    namespace: str, agent_id: str, *, actor: str, now: datetime, ip: str = "", overlap_seconds: int | None = None
) -> Issued:
    """A new key of an agent, which need not be registered yet. With `overlap_seconds` its older keys end after that
    time; without, they stay good. Raises NotFound for an unknown namespace."""
    with transaction.atomic():
        if not Namespace.objects.filter(pk=namespace).exists():
            raise NotFound
        if overlap_seconds is not None:
            older = Credential.objects.filter(namespace=namespace, kind=Credential.Kind.AGENT, agent_id=agent_id)
            end_after(older, now + timedelta(seconds=overlap_seconds))
        issued = issue(Credential.Kind.AGENT, sorted(AGENT_SCOPES), namespace=namespace, agent_id=agent_id)
        after = {"accessKey": issued.access_key, "overlapSeconds": overlap_seconds}
        audit.record(
            actor, "agent.credential", f"agent:{agent_id}", namespace=namespace, after=after, ip=ip, now=now
        )  # fmt: skip
        # The platform signs its requests to the agent with the newest key.
        changes.touch(namespace)
    return issued


def operator(*, actor: str, now: datetime, ip: str = "") -> Issued:
    """A new operator's key, good in every namespace."""
    with transaction.atomic():
        issued = issue(Credential.Kind.OPERATOR, sorted(OPERATOR_SCOPES))
        after = {"kind": "operator", "accessKey": issued.access_key}
        audit.record(actor, "operator.credential", f"credential:{issued.access_key}", after=after, ip=ip, now=now)
    return issued


def revoke(credential_id: int, *, actor: str, now: datetime, ip: str = "") -> None:
    """End a key at once. Raises NotFound."""
    with transaction.atomic():
        rows = Credential.objects.select_for_update(of=("self",)).select_related("client")
        row = rows.filter(pk=credential_id).first()
        if row is None:
            raise NotFound
        if row.revoked_at is None:
            row.revoked_at = now
            row.save(update_fields=["revoked_at"])
            author, name = audit.Author(actor, now, ip), f"credential:{row.access_key}"
            what = {"kind": str(row.kind), "client": row.client and row.client.name, "agentId": row.agent_id or None}
            before, after = {**what, "revokedAt": None}, {**what, "revokedAt": rfc3339(now)}
            author.did("credential.revoke", name, namespace=row.namespace_id or "", before=before, after=after)
            transaction.on_commit(forget_everywhere)
            if row.namespace_id:
                changes.touch(row.namespace_id)


def issue(
    kind: str, scopes: list[str], *, namespace: str | None = None, client: Client | None = None, agent_id: str = ""
) -> Issued:
    """Store a new credential within the caller's transaction."""
    issued = Issued(new_key(PREFIXES[Credential.Kind(kind)]), new_key("ak"), new_key("sk"))
    Credential.objects.create(
        kind=kind,
        namespace_id=namespace,
        client=client,
        agent_id=agent_id,
        key_hash=hash_key(issued.key),
        key_hint=issued.key[-6:],
        access_key=issued.access_key,
        secret_key=encrypt(issued.secret_key),
        scopes=scopes,
    )
    return issued


def end_after(rows: QuerySet[Credential], at: datetime) -> int:
    """Let good credentials end at that time, or earlier where they already would."""
    open_rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=at), revoked_at=None)
    transaction.on_commit(forget_everywhere)
    return open_rows.update(expires_at=at)
