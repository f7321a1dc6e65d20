"""Every setting in one table, read from the environment and from the YAML file that REACH_CONFIG names."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reach_platform import health_settings
from reach_platform.setting_values import (
    commands,
    functions,
    hosts,
    names,
    networks,
    number,
    one_of,
    prefix,
    secret_key,
    text,
    url_of,
    web_address,
    whole,
    yes_no,
)


class SettingsError(Exception):
    """A setting holds nonsense; `problems` has one sentence for each."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Setting:
    """One line of the table: `parse` turns a text into the value or raises ValueError with the reason."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    meaning: str
    range: str = ""
    secret: bool = False


STRATEGIES = (
    "round_robin", "weighted_round_robin", "least_conn", "consistent_hash", "score", "least_load", "cheapest",
)  # fmt: skip

TABLE = (
    Setting("DATABASE_URL", url_of("postgresql", "postgres"), None,
            "PostgreSQL to use; absent = the embedded one.", secret=True),
    Setting("REDIS_URL", url_of("redis", "rediss", "unix"), None,
            "Redis to use (redis://host:port/0 or unix:///path/redis.sock); absent = the embedded one.", secret=True),
    Setting("REACH_CONFIG", text, None, "YAML file with settings by these names; the environment wins."),
    Setting("REACH_SECRET_KEY", secret_key, None,
            "Key that signs sessions and encrypts secrets; absent = made once and kept in <data dir>/secret.key.",
            "at least 32 characters", secret=True),
    Setting("REACH_DATA_DIR", text, ".reach", "Directory of the embedded servers, keys and demo.json."),
    Setting("REACH_HOST", text, "127.0.0.1", "Address that the web server listens on."),
    Setting("REACH_PORT", whole(1, 65535), 8600, "Port that the web server listens on.", "1 to 65535"),
    Setting("REACH_PUBLIC_URL", web_address, None,
            "What result addresses and pages are built from; absent = http://<REACH_HOST>:<REACH_PORT>."),
    Setting("REACH_ALLOWED_HOSTS", hosts, ["localhost", "127.0.0.1", "[::1]"],
            "Host names that requests may be addressed to, comma-separated; * = any. REACH_PUBLIC_URL's is added."),
    Setting("REACH_OUTBOUND_ALLOW", networks, None,
            "Private ranges that requests may go out to (CIDR list); empty = none; absent = loopback if embedded."),
    Setting("REACH_LOG_LEVEL", one_of("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "Least severe log lines written.",
            "DEBUG, INFO, WARNING, ERROR"),
    Setting("REACH_WORKERS", whole(1, 256), 2, "Worker processes that `make up` runs.", "1 to 256"),
    Setting("REACH_ENGINE_ROOM", whole(1, 100_000), 2000, "Tasks that a worker process may have in flight.",
            "1 to 100000"),
    Setting("REACH_WEB_WORKERS", whole(1, 256), 2, "Web processes that `make up` runs.", "1 to 256"),
    Setting("REACH_DRAIN_SECONDS", whole(1, 600), 20, "Seconds that workers get to finish at a stop.", "1 to 600"),
    Setting("REACH_WEB_THREADS", whole(1, 128), 8, "Threads of a web process that answer requests.", "1 to 128"),
    Setting("REACH_UPLOAD_TIMEOUT", whole(1, 3600), 30, "Seconds in which a request body must arrive.", "1 to 3600"),
    Setting("REACH_MAX_BODY_BYTES", whole(1024, 64 * 1024 * 1024), 1024 * 1024, "Largest request body.",
            "1 KiB to 64 MiB"),
    Setting("REACH_MAX_BATCH_BYTES", whole(1024, 256 * 1024 * 1024), 16 * 1024 * 1024, "Largest body of a batch.",
            "1 KiB to 256 MiB"),
    Setting("REACH_MAX_ANSWER_BYTES", whole(1024, 256 * 1024 * 1024), 4 * 1024 * 1024, "Largest answer of an agent.",
            "1 KiB to 256 MiB"),
    Setting("REACH_STREAM_IDLE_MS", whole(1000, 86_400_000), 60_000,
            "Time without a chunk after which an agent's stream is given up (ms).", "1000 to 86400000"),
    Setting("REACH_RESULTS_KEPT", whole(1, 10_000_000), 10_000,
            "Messages that a result stream keeps, about; older ones are dropped.", "1 to 10000000"),
    Setting("REACH_RETENTION_DAYS", whole(1, 3650), 90, "Days that ended tasks are kept.", "1 to 3650"),
    Setting("REACH_ROUTER_STRATEGY", one_of(*STRATEGIES), "least_conn", "Strategy of routes that name none.",
            ", ".join(STRATEGIES)),
    Setting("REACH_ROUTE_CACHE_MS", whole(0, 60_000), 1000, "Age at which a process re-reads its routes (ms).",
            "0 to 60000"),
    Setting("REACH_ZONES", names, [], "Network zones that this machine's workers send into; empty = all.",
            "comma-separated names"),
    Setting("REACH_PROBE_INTERVAL", whole(1000, 3_600_000), 15_000, "Time between two probes of an instance (ms).",
            "1000 to 3600000"),
    Setting("REACH_PROBE_CONCURRENCY", whole(1, 1000), 10, "Probes that may run at once.", "1 to 1000"),
    *(Setting(*row) for row in health_settings.rows()),
    Setting("REACH_ALERT_QUEUE_AGE_S", whole(5, 86_400), 60, "Seconds that a due task may wait before an alert.",
            "5 to 86400"),
    Setting("REACH_ALERT_SUCCESS", number(0, 1), 0.9, "Share of an ability's tasks that should succeed; less alerts.",
            "0 to 1"),
    Setting("REACH_ALERT_LATENCY_RATIO", number(1.1, 100), 2.0,
            "How many times its usual 95th percentile an agent may take before an alert.", "1.1 to 100"),
    Setting("REACH_REDIS_PREFIX", prefix, "reach", "Begins every Redis key, so that platforms can share a server.",
            "1 to 40 characters"),
    Setting("REACH_VISIBILITY_TIMEOUT", whole(1, 86_400), 3600,
            "Seconds after which Redis hands an unacknowledged message out again.", "1 to 86400"),
    Setting("REACH_PROBE_COMMANDS", commands, {},
            'Commands that probes may run: {"name": ["/path/program", "argument"]}.', "JSON object"),
    Setting("REACH_HOOK_COMMANDS", commands, {},
            'Commands that hooks may run: {"name": ["/path/program", "argument"]}.', "JSON object"),
    Setting("REACH_FUNCTIONS", functions, {},
            'Functions that serve as agents: {"name": "package.module:function"}.', "JSON object"),
    Setting("REACH_DEBUG", yes_no, False, "Django's debug pages; never on a reachable machine.", "true, false"),
)  # fmt: skip


EMPTY_SAYS_NONE = {"REACH_OUTBOUND_ALLOW"}


def load(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns every setting's value by name; raises SettingsError that lists everything that is wrong."""
    problems: list[str] = []
    given = {**_read_file(environ.get("REACH_CONFIG"), problems), **_present(environ)}
    values = {}
    for setting in TABLE:
        raw = given.get(setting.name)
        try:
            values[setting.name] = setting.default if raw is None else setting.parse(raw)
        except ValueError as reason:
            shown = "(a secret)" if setting.secret else repr(raw)
            problems.append(f"{setting.name}={shown}: {reason}")
    if problems:
        raise SettingsError(problems)
    return values


def load_or_exit() -> dict[str, Any]:
    """Returns the settings of this process; ends it with one line for each wrong setting, never with a traceback."""
    try:
        return load(os.environ)
    except SettingsError as error:
        sys.exit("The settings are wrong:\n" + "\n".join(f"  {problem}" for problem in error.problems))


def unknown_names(environ: Mapping[str, str]) -> list[str]:
    """Returns the REACH_ names in the environment that no setting has; REACH_URL and REACH_KEY belong to the CLI."""
    known = {setting.name for setting in TABLE} | {"REACH_URL", "REACH_KEY"}
    return sorted(name for name in environ if name.startswith("REACH_") and name not in known)


def markdown_table() -> str:
    """Returns the table of settings as the documentation shows it."""
    lines = ["| name | default | range | meaning |", "|---|---|---|---|"]
    for setting in TABLE:
        default = _default_text(setting.default)
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{setting.name}` | {shown} | {setting.range} | {setting.meaning.replace('|', '/')} |")
    return "\n".join(lines)


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list):
        return ",".join(default)
    if isinstance(default, float):
        return f"{default:.6g}"
    return str(default) if default else ""


def _present(environ: Mapping[str, str]) -> dict[str, str]:
    known = {setting.name for setting in TABLE}
    # An empty variable counts as absent: that is how shells and compose files unset one. Not so where empty is an
    # answer: a list of allowed ranges that was emptied must allow nothing.
    return {name: value for name, value in environ.items() if name in known and (value or name in EMPTY_SAYS_NONE)}


def _read_file(path: str | None, problems: list[str]) -> dict[str, str]:
    if not path:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problems.append(f"REACH_CONFIG={path!r}: it cannot be read: {' '.join(str(error).split())}")
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        problems.append(f"REACH_CONFIG={path!r}: it must hold a mapping of setting names to values")
        return {}
    return {str(name): _as_text(value) for name, value in content.items() if _known(str(name), path, problems)}


def _known(name: str, path: str, problems: list[str]) -> bool:
    if name == "REACH_CONFIG" or name not in {setting.name for setting in TABLE}:
        problems.append(f"REACH_CONFIG={path!r}: {name!r} is not a setting that this file can hold")
        return False
    return True


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)
