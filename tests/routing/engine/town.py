"""A namespace with a client and agents in the real registry, for engines to work on."""

import uuid
from typing import Any

from django.db import transaction

from common import clock
from common.json import dumps
from common.secrets import encrypt
from common.signing import new_webhook_secret
from registry.models import Agent, Capability, Client, Credential, Instance, Namespace
from registry.principal import Principal
from registry.services.changes import touch
from routing.requests import parse
from routing.services import accept as accepting
from routing.services.settle import settle  # noqa: F401 - loads what the engine will need
from tests.routing.engine.local import wait_until
from tests.routing.services.world import events, rows, task


class Town:
    """`agent` is the server that plays the one agent behind the ability `echo`."""

    def __init__(self, serve: Any):
        self.serve = serve
        self.namespace = f"t-{uuid.uuid4().hex[:12]}"
        self.secret = new_webhook_secret()
        self.agent = serve()
        Namespace.objects.create(name=self.namespace)
        kept = encrypt(dumps([{"secret": self.secret, "until": None}]).decode())
        Client.objects.create(namespace_id=self.namespace, name="shop", abilities=["*"], callback_secrets=kept)
        self.add_agent("worker", self.agent.url)

    def add_agent(self, agent_id: str, url: str, *, state: str = "ONLINE", limits: Any = None, **spec: Any) -> Instance:
        with transaction.atomic():
            manifest = {"spec": {"limits": limits or {}}}
            agent = Agent.objects.create(namespace_id=self.namespace, agent_id=agent_id, manifest=manifest, version="1")
            Capability.objects.create(agent=agent, name="echo", spec=spec)
            now = clock.now()
            instance = Instance.objects.create(
                agent=agent, instance_id="i1", invoke_url=url, state=state, state_since=now, registered_at=now
            )
            Credential.objects.create(
                kind="agent", namespace_id=self.namespace, agent_id=agent_id, key_hash=uuid.uuid4().hex,
                access_key=uuid.uuid4().hex, secret_key=encrypt("agent secret"),
            )  # fmt: skip
            touch(self.namespace)
        return instance

    def change(self, instance: Instance, **fields: Any) -> None:
        with transaction.atomic():
            Instance.objects.filter(pk=instance.pk).update(**fields)
            touch(self.namespace)

    def remove(self, instance: Instance) -> None:
        with transaction.atomic():
            instance.delete()
            touch(self.namespace)

    def instance(self) -> Instance:
        return Instance.objects.get(agent__namespace=self.namespace)

    def instance_of(self, agent_id: str) -> Instance:
        return Instance.objects.get(agent__namespace=self.namespace, agent__agent_id=agent_id)

    def point_to(self, url: str) -> None:
        """The agent is at another address from now on."""
        self.change(self.instance(), invoke_url=url)

    def submit(self, payload: Any = None, client: str = "shop", **fields: Any) -> uuid.UUID:
        principal = Principal("client", self.namespace, client, None, frozenset({"tasks:write"}), ("*",))
        payload = {"x": 1} if payload is None else payload
        request = parse(dumps({"target": {"ability": "echo"}, "payload": payload, **fields}))
        return accepting.accept(principal, self.namespace, request, traceparent=None, now=clock.now()).task_id

    def ended(self, *task_ids: uuid.UUID, seconds: float = 60.0) -> list[dict[str, Any]]:
        """The tasks' rows once all have ended; fails with what became of the others so far."""
        open_ones = "SELECT * FROM routing_task WHERE id = ANY(%s) AND outcome IS NULL"
        wait_until(
            lambda: not rows(open_ones, [*task_ids]),
            seconds,
            lambda: [(row, self.events(row["id"])) for row in rows(open_ones, [*task_ids])],
        )
        return [task(task_id) for task_id in task_ids]

    def events(self, task_id: uuid.UUID) -> list[str]:
        return events(task_id)
