"""The admin: owners see and change their team's agents and instances, operators everything.

Nothing is written here: each change is one call of a service, which also records it in the audit log.
"""

from registry.admin import agents, hooks, people, revisions, setup

__all__ = ["agents", "hooks", "people", "revisions", "setup"]
