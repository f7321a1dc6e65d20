"""What a platform on one machine starts with: namespaces, a client, keys, people, the sample agents and their routes.

`prepare` is safe to repeat: secrets live in `<data dir>/demo.json` (and `samples.json` for the sample agents); while
the database knows them they stay, and when a file is gone or belongs to another database, new ones replace them.
"""

import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from common.clock import now
from common.secrets import hash_key
from reach_platform.processes import spawn
from reach_platform.supervisor import ChildSpec, Phase
from registry.models import Audit, Client, Credential
from registry.services import clients, credentials, namespaces, users
from routing.models import Route
from routing.services import routes

log = logging.getLogger("reach.setup")

ACTOR = "setup"
NAMESPACE = "reach-demo"
CLIENT = "demo"
TEAM = "support-platform"
AGENTS = {"ticket-classifier": "examples.ticket_classifier.agent", "summariser": "examples.summariser.agent"}
ROUTES = {"ticket.classify": ("ticket-classifier", "classify"), "text.summarise": ("summariser", "summarise")}
ROLES = {"owner": "owner", "support": "support", "admin": "operator"}  # login → role
DEMO_FILE, SAMPLES_FILE = "demo.json", "samples.json"
_LOCK = 0x72656163  # of starts that happen at once on several machines


def prepare(data_dir: Path, base_url: str) -> list[str]:
    """Sets up what is missing and writes both files; returns lines to show to whoever started the platform."""
    with _one_at_a_time():
        for name in ("default", NAMESPACE):
            namespaces.create(name, actor=ACTOR, now=now())
        kept, samples = _read(data_dir / DEMO_FILE), _read(data_dir / SAMPLES_FILE)
        if not (_is_good(kept) and _are_good(samples)):
            kept, samples = _renew()
            log.info("made new keys and logins", extra={"path": str(data_dir / DEMO_FILE)})
        _write(data_dir / DEMO_FILE, {**kept, "baseUrl": base_url})
        _write(data_dir / SAMPLES_FILE, samples)
        _routes()
    login = kept["logins"]["support"]
    return [
        f"login    {login['user']} / {login['password']} (the others, and the keys: {data_dir / DEMO_FILE})",
    ]


def children(data_dir: Path, base_url: str, receiver: tuple[int, Path] | None = None) -> list[ChildSpec]:
    """The sample agents, and with `receiver` (port, log file) a callback receiver; each reads its key at its start."""
    specs = [_child(f"agent-{name}", module, data_dir, lambda name=name: _agent_env(data_dir, name, base_url))
             for name, module in AGENTS.items()]  # fmt: skip
    if receiver:
        module = "examples.callback_receiver.receiver"
        specs.append(_child("receiver", module, data_dir, lambda: _receiver_env(data_dir, *receiver)))
    return specs


def _child(name: str, module: str, data_dir: Path, environment: Any) -> ChildSpec:
    def start() -> Any:
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **environment()}
        return spawn([sys.executable, "-m", module], env, death_signal=signal.SIGTERM, cwd=settings.BASE_DIR)

    return ChildSpec(name, start, Phase.AGENT, grace=5)


def _agent_env(data_dir: Path, name: str, base_url: str) -> dict[str, str]:
    sample = _read(data_dir / SAMPLES_FILE)[name]
    return {
        "REACH_URL": base_url,
        "REACH_KEY": sample["key"],
        "AGENT_SECRET_KEY": sample["secretKey"],
        "AGENT_INSTANCE_ID": "sample-1",
        "AGENT_PORT": "0",
    }


def _receiver_env(data_dir: Path, port: int, log_file: Path) -> dict[str, str]:
    secret = _read(data_dir / DEMO_FILE)["client"]["callbackSecret"]
    return {"CALLBACK_SECRET": secret, "RECEIVER_PORT": str(port), "RECEIVER_LOG": str(log_file)}


def _is_good(kept: dict[str, Any]) -> bool:
    """Whether the file is whole and this database knows its keys."""
    try:
        keys = [kept["operatorKey"], kept["client"]["key"], kept["agent"]["key"]]
        whole = bool(kept["client"]["callbackSecret"]) and set(kept["logins"]) == set(ROLES)
    except (KeyError, TypeError):
        return False
    return whole and _known(keys)


def _are_good(samples: dict[str, Any]) -> bool:
    try:
        return _known([samples[name]["key"] for name in AGENTS])
    except (KeyError, TypeError):
        return False


def _known(keys: list[str]) -> bool:
    hashes = {hash_key(key) for key in keys}
    return Credential.objects.filter(key_hash__in=hashes, revoked_at=None, expires_at=None).count() == len(hashes)


def _renew() -> tuple[dict[str, Any], dict[str, Any]]:
    """New keys and passwords in place of all that an earlier set-up gave out."""
    _revoke_operator_keys()
    operator = credentials.operator(actor=ACTOR, now=now())
    samples = {
        name: credentials.for_agent(NAMESPACE, name, actor=ACTOR, now=now(), overlap_seconds=0).document()
        for name in AGENTS
    }
    first = next(iter(AGENTS))
    kept = {
        "operatorKey": operator.key,
        "namespace": NAMESPACE,
        "client": {"name": CLIENT, **_client()},
        "agent": {"agentId": first, "key": samples[first]["key"]},
        "logins": {name: _login(name, role) for name, role in ROLES.items()},
    }
    return kept, samples


def _revoke_operator_keys() -> None:
    given = Audit.objects.filter(actor=ACTOR, action="operator.credential").values_list("object", flat=True)
    access_keys = [name.partition(":")[2] for name in given]
    for id in Credential.objects.filter(access_key__in=access_keys, revoked_at=None).values_list("id", flat=True):
        credentials.revoke(id, actor=ACTOR, now=now())


def _client() -> dict[str, str]:
    if Client.objects.filter(namespace=NAMESPACE, name=CLIENT).exists():
        made = clients.rotate(NAMESPACE, CLIENT, overlap_seconds=0, actor=ACTOR, now=now())
    else:
        made = clients.create(NAMESPACE, CLIENT, actor=ACTOR, now=now())
    document = made.document()
    return {name: document[name] for name in ("key", "accessKey", "secretKey", "callbackSecret")}


def _login(name: str, role: str) -> dict[str, str]:
    password = secrets.token_urlsafe(12)
    places = ["*"] if role == "operator" else [NAMESPACE]
    team = TEAM if role == "owner" else ""
    users.put(name, role=role, team=team, namespaces=places, password=password, actor=ACTOR, now=now())
    return {"user": name, "password": password}


def _routes() -> None:
    """The sample abilities' routes, unless somebody made or changed them already."""
    there = set(Route.objects.filter(namespace=NAMESPACE, ability__in=ROUTES).values_list("ability", flat=True))
    missing = [
        {"ability": ability, "candidates": [{"agent": agent, "capability": capability}]}
        for ability, (agent, capability) in ROUTES.items()
        if ability not in there
    ]
    if missing:
        routes.put(NAMESPACE, missing, actor=ACTOR, now=now())


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    draft.replace(path)
