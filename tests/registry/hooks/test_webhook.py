"""The receiver that the documentation shows takes what is signed and refuses what is not."""

import asyncio
import ipaddress
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import replace

import pytest
from django.conf import settings as project

from common.ids import uuid7
from common.outbound import Outbound
from common.signing import new_webhook_secret
from registry import webhook_secrets
from registry.hooks import webhook
from registry.hooks.messages import Due

SECRET = new_webhook_secret()


@pytest.fixture
def documented():
    """The address of the documented receiver, running, and its process."""
    text = (project.BASE_DIR / "docs" / "hooks.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "HOOK_SECRET": SECRET, "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    while socket.socket().connect_ex(("127.0.0.1", port)):
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/hook", process
    process.kill()
    process.communicate()


def post(due):
    async def trip():
        out = Outbound([ipaddress.ip_network("127.0.0.0/8")])
        try:
            return await webhook.post(due, out)
        finally:
            await out.close()

    return asyncio.run(trip())


def test_the_documented_receiver_believes_only_what_is_signed(documented):
    url, process = documented
    sealed = webhook_secrets.sealed(SECRET)
    due = Due(uuid7(), uuid.uuid4(), "hook.test", "", url, "", sealed, '{"a": "é"}'.encode(), 1)
    assert post(due).status == 204
    assert post(replace(due, secrets=webhook_secrets.sealed(new_webhook_secret()))).status == 401
    assert [process.stdout.readline().decode().strip() for _ in range(2)] == ["{'a': 'é'}", "refused"]
