"""Namespaces: made once, never renamed."""

import re
from datetime import datetime
from typing import Any

from django.db import transaction

from common.errors import Invalid
from registry.models import Namespace
from registry.services import audit

NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


def create(name: str, *, actor: str, now: datetime, ip: str = "", settings: dict[str, Any] | None = None) -> bool:
    """Make the namespace; False when it is there already. Raises Invalid for a name that is not a-z, 0-9 and `-`."""
    if re.fullmatch(NAME[1:-1], name) is None:
        message = "must have 1 to 63 of a-z, 0-9 and -, and begin and end with a letter or digit"
        raise Invalid([{"pointer": "/name", "code": "PATTERN", "message": message}])
    with transaction.atomic():
        made = Namespace.objects.get_or_create(name=name, defaults={"settings": settings or {}})[1]
        if made:
            after = {"name": name, "settings": settings or {}}
            audit.record(actor, "namespace.create", f"namespace:{name}", namespace=name, after=after, ip=ip, now=now)
    return made
