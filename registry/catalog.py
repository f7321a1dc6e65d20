"""What the namespace's agents can do, for people and for models. Pure.

An ability without a route of its own is served by an implicit one; whoever knows the routes passes the names of those
that have an explicit one.
"""

import re
from collections.abc import Collection
from typing import Any

from registry.models import Capability

NOT_IN_TOOL_NAMES = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_TOOL_NAME = 64
NO_INPUT = {"type": "object", "properties": {}}


def item(row: Capability, explicit: Collection[str]) -> dict[str, Any]:
    """One capability in the catalog."""
    spec = row.spec
    return {
        "ability": row.name,
        "route": "explicit" if row.name in explicit else "implicit",
        "agentId": row.agent.agent_id,
        "agentName": row.agent.display_name,
        "capability": row.name,
        "version": row.agent.version,
        "owner": row.agent.owner,
        "tags": row.agent.tags,
        "description": row.description,
        "inputSchema": row.input_schema,
        "outputSchema": row.output_schema,
        "requestSample": spec.get("requestSample"),
        "examples": spec.get("examples", []),
        "latencySlaMs": spec.get("latencySlaMs"),
        "sideEffects": spec.get("sideEffects", False),
        "stateful": spec.get("stateful", False),
    }


def openai_tool(row: Capability) -> dict[str, Any]:
    """One capability as an entry of OpenAI's `tools`."""
    return {
        "type": "function",
        "function": {
            "name": NOT_IN_TOOL_NAMES.sub("_", row.name)[:LONGEST_TOOL_NAME],
            "description": row.description,
            "parameters": _parameters(row),
        },
    }


def mcp_tool(row: Capability) -> dict[str, Any]:
    """One capability as an entry of MCP's `tools/list`."""
    return {
        "name": row.name,
        "description": row.description,
        "inputSchema": _parameters(row),
        "annotations": {"readOnlyHint": not row.spec.get("sideEffects", False)},
    }


def _parameters(row: Capability) -> dict[str, Any]:
    schema = row.input_schema
    return {"type": "object", **schema} if isinstance(schema, dict) and schema else dict(NO_INPUT)
