"""People who log in: what they may see and do."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

from registry.models import Membership
from registry.services import audit


@dataclass(frozen=True)
class Member:
    """A person as set; `password` is given once, when the account was made here."""

    user: str
    role: str
    team: str
    namespaces: list[str]
    password: str | None


def put(
    name: str,
    *,
    role: str,
    team: str = "",
    namespaces: list[str] | None = None,
    password: str | None = None,
    actor: str,
    now: datetime,
    ip: str = "",
) -> Member:
    """Make an account, or change its role, team and namespaces; owners and operators may log in to the admin."""
    places = namespaces if namespaces is not None else ["*"]
    with transaction.atomic():
        user, made = get_user_model().objects.get_or_create(username=name)
        user = get_user_model().objects.select_for_update().get(pk=user.pk)
        before = None if made else _described(user)
        shown = (password or secrets.token_urlsafe(12)) if made or password else None
        if shown:
            user.set_password(shown)
        user.is_staff = role in (Membership.Role.OWNER, Membership.Role.OPERATOR)
        user.is_superuser = role == Membership.Role.OPERATOR
        user.save(update_fields=["is_staff", "is_superuser", *(["password"] if shown else [])])
        values = {"role": role, "team": team, "namespaces": places}
        Membership.objects.update_or_create(user=user, defaults=values)
        action, after = "user.create" if made else "user.change", {**values, **({"password": "set"} if shown else {})}
        audit.record(actor, action, f"user:{name}", before=before, after=after, ip=ip, now=now)
    return Member(name, role, team, places, shown)


def set_own_password(user: Any, password: str, *, actor: str, now: datetime, ip: str = "") -> None:
    """Give the person who asks for it a new password; what it was or is stands nowhere in the log."""
    with transaction.atomic():
        user.set_password(password)
        user.save(update_fields=["password"])
        name, after = f"user:{user.get_username()}", {"password": "set"}
        audit.record(actor, "user.password", name, before={}, after=after, ip=ip, now=now)


def _described(user: Any) -> dict[str, Any] | None:
    member = Membership.objects.filter(user=user).first()
    return {"role": member.role, "team": member.team, "namespaces": member.namespaces} if member else None
