"""Who may do what: scopes, namespaces, and an agent's own things. What is not one's own is not there (404)."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from common.errors import Forbidden, NotFound, Unauthenticated
from registry import selectors
from registry.principal import Principal

DEFAULT_NAMESPACE = "default"


def HasScope(*scopes: str) -> type[BasePermission]:  # noqa: N802 - used like a class in permission_classes
    """A permission that lets through whoever holds one of the scopes, and operators."""

    class _HasScope(BasePermission):
        def has_permission(self, request: Request, view: Any) -> bool:
            return require_scope(request, *scopes)

    _HasScope.__name__ = _HasScope.__qualname__ = f"HasScope({', '.join(scopes)})"
    _HasScope.scopes = scopes  # type: ignore[attr-defined]
    return _HasScope


def principal_of(request: Request) -> Principal:
    """The authenticated principal; raises Unauthenticated when there is none."""
    principal = request.user
    if not isinstance(principal, Principal):
        raise Unauthenticated
    return principal


def require_scope(request: Request, *scopes: str) -> bool:
    """True, or Unauthenticated, or Forbidden with the scopes that would do."""
    if not principal_of(request).may(*scopes):
        raise Forbidden(f"this needs the scope {' or '.join(scopes)}")
    return True


def namespace_of(request: Request, given: str | None = None) -> str:
    """The namespace that the request is about: the credential's own; an operator's `?namespace=` or `given`, the one in
    the body (default "default"). Raises NotFound for another namespace than one's own, and for an unknown one."""
    principal = principal_of(request)
    asked = {name for name in (request.query_params.get("namespace"), given) if name is not None}
    if len(asked) > 1:
        raise NotFound
    if principal.is_operator:
        name = asked.pop() if asked else DEFAULT_NAMESPACE
        if not selectors.namespace_exists(name):
            raise NotFound
        return name
    if principal.namespace is None or asked - {principal.namespace}:
        raise NotFound
    return principal.namespace


def require_agent(request: Request, agent_id: str) -> None:
    """Raises NotFound when the principal is another agent than the one that the request is about."""
    principal = principal_of(request)
    if principal.kind == "agent" and principal.agent_id != agent_id:
        raise NotFound
