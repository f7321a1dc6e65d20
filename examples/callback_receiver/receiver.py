"""A callback receiver that verifies, de-duplicates and logs: `python -m examples.callback_receiver.receiver`.

Environment: CALLBACK_SECRET (the client's `whsec_…`), RECEIVER_LOG (file of JSON lines), RECEIVER_HOST, RECEIVER_PORT
(0 = any free port).
"""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError


class CallbackReceiver:
    """POST /callback takes results; GET /received?taskId= lists them."""

    def __init__(self, secret: str, log_path: Path):
        self._webhook, self._log_path = Webhook(secret), log_path
        self._bodies: dict[str, dict[str, Any]] = {}  # by webhook-id, in order of arrival
        self.app = web.Application(client_max_size=8 * 2**20)
        self.app.router.add_post("/callback", self._handle_callback)
        self.app.router.add_get("/received", self._handle_received)

    async def _handle_callback(self, request: web.Request) -> web.Response:
        try:
            body = self._webhook.verify(await request.read(), dict(request.headers))
        except (WebhookVerificationError, ValueError) as error:
            return web.json_response({"detail": f"signature refused: {error}"}, status=401)
        message_id = request.headers["webhook-id"]
        if message_id not in self._bodies:
            self._bodies[message_id] = body
            with self._log_path.open("a", encoding="utf-8") as log:
                log.write(json.dumps(body, ensure_ascii=False) + "\n")
        return web.Response(status=204)

    async def _handle_received(self, request: web.Request) -> web.Response:
        task_id = request.query.get("taskId")
        items = [body for body in self._bodies.values() if task_id in (None, body.get("taskId"))]
        return web.json_response({"items": items})


async def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    receiver = CallbackReceiver(os.environ["CALLBACK_SECRET"], Path(os.environ["RECEIVER_LOG"]))
    runner = web.AppRunner(receiver.app, access_log=None)
    await runner.setup()
    host = os.environ.get("RECEIVER_HOST", "127.0.0.1")
    await web.TCPSite(runner, host, int(os.environ.get("RECEIVER_PORT", "0"))).start()
    url = f"http://{host}:{runner.addresses[0][1]}/callback"
    print(json.dumps({"event": "listening", "url": url}), flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
