"""Clients: callers' identities with their keys, limits and callback secrets."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from common.clock import rfc3339
from common.errors import NotFound, StateConflict
from common.signing import new_webhook_secret
from registry import webhook_secrets
from registry.credential_cache import forget_everywhere
from registry.models import Client, Credential, Namespace
from registry.services import changes
from registry.services.audit import Author
from registry.services.credentials import Issued, end_after, issue

DEFAULT_SCOPES = ("tasks:write", "tasks:read", "catalog:read", "route")
DEFAULT_OVERLAP_S = 86_400
CHANGEABLE = ("abilities", "limits", "callback_schedule", "enabled")


@dataclass(frozen=True)
class NewClient:
    """A client as created or rotated, with everything that is shown once."""

    client: Client
    scopes: list[str]
    issued: Issued
    callback_secret: str

    def document(self) -> dict[str, Any]:
        return {
            **describe(self.client, self.scopes),
            **self.issued.document(),
            "callbackSecret": self.callback_secret,
        }


def create(
    namespace: str,
    name: str,
    *,
    scopes: list[str] | None = None,
    abilities: list[str] | None = None,
    limits: dict[str, Any] | None = None,
    callback_schedule: str = Client.Schedule.STANDARD,
    actor: str,
    now: datetime,
    ip: str = "",
) -> NewClient:
    """Make a client with its first key. Raises NotFound (namespace) and StateConflict (name taken)."""
    granted = list(dict.fromkeys(scopes if scopes is not None else DEFAULT_SCOPES))
    secret = new_webhook_secret()
    with transaction.atomic():
        if not Namespace.objects.filter(pk=namespace).exists():
            raise NotFound
        client, made = Client.objects.get_or_create(
            namespace_id=namespace,
            name=name,
            defaults={
                "abilities": ["*"] if abilities is None else abilities,
                "limits": limits or {},
                "callback_schedule": callback_schedule,
                "callback_secrets": webhook_secrets.sealed(secret),
            },
        )
        if not made:
            raise StateConflict(f"there is a client {name} in {namespace} already; rotate its key instead")
        issued = issue(Credential.Kind.CLIENT, granted, namespace=namespace, client=client)
        _record("client.create", client, Author(actor, now, ip), after=describe(client, granted))
        changes.touch(namespace)
    return NewClient(client, granted, issued, secret)


def rotate(
    namespace: str, name: str, *, overlap_seconds: int = DEFAULT_OVERLAP_S, actor: str, now: datetime, ip: str = ""
) -> NewClient:
    """Give the client a new key and callback secret; the old ones end after the overlap. Raises NotFound."""
    until = now + timedelta(seconds=overlap_seconds)
    secret = new_webhook_secret()
    with transaction.atomic():
        client = _locked(namespace, name)
        scopes = scopes_of(client)
        newest = Credential.objects.filter(client=client).order_by("-id").values_list("access_key", flat=True).first()
        end_after(Credential.objects.filter(client=client), until)
        issued = issue(Credential.Kind.CLIENT, scopes, namespace=namespace, client=client)
        client.callback_secrets = webhook_secrets.rotated(client.callback_secrets, secret, until=until, now=now)
        client.save(update_fields=["callback_secrets"])
        after = {"accessKey": issued.access_key, "oldUntil": rfc3339(until)}
        _record("client.rotate", client, Author(actor, now, ip), before={"accessKey": newest}, after=after)
        changes.touch(namespace)
    return NewClient(client, scopes, issued, secret)


def change(namespace: str, name: str, *, actor: str, now: datetime, ip: str = "", **fields: Any) -> Client:
    """Change abilities, limits, callback_schedule or enabled; disabling refuses its keys. Raises NotFound."""
    wrong = fields.keys() - set(CHANGEABLE)
    if wrong:
        raise TypeError(f"not changeable: {sorted(wrong)}")
    with transaction.atomic():
        client = _locked(namespace, name)
        before = {field: getattr(client, field) for field in fields}
        for field, value in fields.items():
            setattr(client, field, value)
        if fields != before:
            client.save(update_fields=list(fields))
            _record("client.change", client, Author(actor, now, ip), before=before, after=fields)
            transaction.on_commit(forget_everywhere)
            changes.touch(namespace)
    return client


def scopes_of(client: Client) -> list[str]:
    """The scopes of the client's newest key."""
    return Credential.objects.filter(client=client).order_by("-id").values_list("scopes", flat=True).first() or []


def describe(client: Client, scopes: list[str]) -> dict[str, Any]:
    """A client as the API shows it, without anything secret."""
    return {
        "name": client.name,
        "namespace": client.namespace_id,
        "scopes": scopes,
        "abilities": client.abilities,
        "limits": client.limits,
        "callbackSchedule": str(client.callback_schedule),
        "enabled": client.enabled,
        "createdAt": rfc3339(client.created_at),
    }


def _locked(namespace: str, name: str) -> Client:
    client = Client.objects.select_for_update(no_key=True).filter(namespace=namespace, name=name).first()
    if client is None:
        raise NotFound
    return client


def _record(action: str, client: Client, author: Author, *, before: Any = None, after: Any = None) -> None:
    author.did(action, f"client:{client.name}", namespace=client.namespace_id, before=before, after=after)
