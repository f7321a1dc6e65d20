"""People who log in: what they may see and do."""

import secrets
from dataclasses import dataclass
from datetime import datetime

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
        shown = (password or secrets.token_urlsafe(12)) if made or password else None
        if shown:
            user.set_password(shown)
        user.is_staff = role in (Membership.Role.OWNER, Membership.Role.OPERATOR)
        user.is_superuser = role == Membership.Role.OPERATOR
        user.save()
        after = {"role": role, "team": team, "namespaces": places}
        Membership.objects.update_or_create(user=user, defaults=after)
        audit.record(actor, "user.create" if made else "user.change", f"user:{name}", after=after, ip=ip, now=now)
    return Member(name, role, team, places, shown)
