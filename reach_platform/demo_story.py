"""What the demo does and shows, over HTTP only, as any caller would."""

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

PATIENCE_S = 20.0
MEANING = {
    "RECEIVED": "durable in PostgreSQL, 202 sent",
    "WAITING": "nobody can take it just now",
    "ROUTED": "an instance is chosen",
    "DISPATCHED": "sent, signed",
    "RUNNING": "the agent has it",
    "SUCCEEDED": "the answer is stored, the callback leaves",
}


class StoryError(Exception):
    """Something did not go as promised; the text is for the reader."""


class Story:
    """Two tickets, told on `screen`; `problem` says what went wrong, if anything."""

    def __init__(self, screen: TextIO, root: Path, data_dir: Path, receiver: str):
        self.screen, self.receiver = screen, receiver
        self.demo = json.loads((data_dir / "demo.json").read_text("utf-8"))
        tickets = [json.loads(line) for line in (root / "examples/tickets.jsonl").read_text("utf-8").splitlines()]
        self.english = next(t for t in tickets if t["ticketTitle"].isascii())
        self.chinese = next(t for t in tickets if not t["ticketTitle"].isascii())
        self.problem: str | None = None

    def tell(self) -> None:
        """Runs the story to its end."""
        try:
            self._wait_for_agents()
            self._ticket("A ticket comes in", self.english)
            self._ticket("And one in Chinese", self.chinese)
        except (StoryError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.problem = f"{error}" if isinstance(error, StoryError) else f"{type(error).__name__}: {error}"

    def _ticket(self, title: str, ticket: dict[str, Any]) -> None:
        payload = {name: value for name, value in ticket.items() if name != "expectedCategory"}
        self._say(f"\n▸ {title}", f"    “{ticket['ticketTitle']}”  {ticket['ticketContent']}")
        task_id = self._submit(payload)
        self._say("  Its journey, as it happens")
        for event in self._events(task_id):
            who = f"{event['agentId']} / {event['instanceId']}" if event["agentId"] else ""
            what = MEANING.get(event["event"]) or json.dumps(event["detail"] or "", ensure_ascii=False)
            self._say(f"    {event['elapsedMs']:>5} ms  {event['event']:<11} {what:<42} {who}".rstrip())
        self._answer(task_id, ticket["expectedCategory"])

    def _submit(self, payload: dict[str, Any]) -> str:
        body = {
            "target": {"ability": "ticket.classify"},
            "payload": payload,
            "callback": {"type": "http", "url": f"{self.receiver}/callback"},
        }
        began = time.monotonic()
        status, answer = self._call("POST", "/v1/reach", body)
        if status != 202:
            raise StoryError(f"POST /v1/reach answered {status}: {answer}")
        self._say(f"  POST /v1/reach → 202 in {(time.monotonic() - began) * 1000:.0f} ms   task {answer['taskId']}")
        return str(answer["taskId"])

    def _answer(self, task_id: str, expected: str) -> None:
        _, task = self._call("GET", f"/v1/tasks/{task_id}")
        if task["state"] != "SUCCEEDED":
            raise StoryError(f"the task ended as {task['state']}: {task['error']}")
        data = task["result"]["data"]
        sure = f"{data['confidence']:.0%} sure"
        self._say(f"  The classifier's answer: {data['category']}, {sure} (the ticket's label: {expected})")
        callback = self._callback(task_id)
        if callback["result"] != task["result"]:
            raise StoryError("the callback and the query do not tell the same result")
        self._say("  The callback arrived, its signature verified, with the same result.")
        _, journey = self._call("GET", f"/v1/tasks/{task_id}/journey")
        cause = journey["summary"]["cause"]
        self._say(f"  In plain words: {cause['en']}  {cause['zh']}")

    def _callback(self, task_id: str) -> dict[str, Any]:
        def arrived() -> Any:
            with urllib.request.urlopen(f"{self.receiver}/received?taskId={task_id}", timeout=5) as answer:  # noqa: S310
                return next(iter(json.load(answer)["items"]), None)

        return dict(_until(arrived, "the callback"))

    def _wait_for_agents(self) -> None:
        def registered() -> bool:
            status, found = self._call("GET", "/v1/catalog")
            return status == 200 and "ticket.classify" in json.dumps(found)

        def accepted() -> bool:
            path = f"/v1/agents/{self.demo['agent']['agentId']}?namespace={self.demo['namespace']}"
            return self._call("GET", path, key=self.demo["operatorKey"])[0] == 200

        _until(lambda: accepted() or registered(), "the sample agents' registration")

    def _events(self, task_id: str) -> Iterator[dict[str, Any]]:
        """The task's server-sent events until its end."""
        connection = self._connect()
        try:
            connection.request("GET", f"/v1/tasks/{task_id}/events", headers=self._headers(self.demo["client"]["key"]))
            answer = connection.getresponse()
            if answer.status != 200:
                raise StoryError(f"GET /v1/tasks/{task_id}/events answered {answer.status}")
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def _call(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        connection = self._connect()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, self._headers(key or self.demo["client"]["key"]))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.demo["baseUrl"]).netloc, timeout=PATIENCE_S)

    @staticmethod
    def _headers(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def _say(self, *lines: str) -> None:
        self.screen.write("\n".join(lines) + "\n")
        self.screen.flush()


def _until(check: Any, what: str) -> Any:
    """The first true value of `check`, asked ten times a second; raises StoryError when it does not come."""
    end = time.monotonic() + PATIENCE_S
    while not (found := check()):
        if time.monotonic() > end:
            raise StoryError(f"{what} did not come within {PATIENCE_S:g} s")
        time.sleep(0.1)
    return found
