"""Who waits for a task hears of its end: one Redis message a settle batch, and a re-read each second for lost ones."""

import uuid
from collections.abc import Callable, Iterable

from common import broadcast, waits
from common.database import hot_cursor, robust

CHANNEL, STEPS = "tasks", "steps"
NEVER = 1 << 62  # a number that no event reaches: wakes at the end only

Read = Callable[[list[uuid.UUID]], list[tuple[uuid.UUID, int, bool]]]


def publish(task_ids: Iterable[uuid.UUID]) -> None:
    """Tell every process that these tasks have ended; after the commit. Never blocks, never raises."""
    if ids := [str(task_id) for task_id in task_ids]:
        broadcast.publish(CHANNEL, ids)


def stepped(task_ids: Iterable[uuid.UUID]) -> None:
    """Tell who follows these tasks that there is more to read; as `publish`."""
    if ids := [str(task_id) for task_id in task_ids]:
        broadcast.publish(STEPS, ids)


@robust(patience=5.0)
def read_progress(task_ids: list[uuid.UUID]) -> list[tuple[uuid.UUID, int, bool]]:
    """(task id, number of its last event, whether it has ended) of those that exist, in one query."""
    with hot_cursor() as cursor:
        cursor.execute("SELECT id, seq, outcome IS NOT NULL FROM routing_task WHERE id = ANY(%s)", [task_ids])
        return cursor.fetchall()


class Hub(waits.Hub[uuid.UUID, tuple[uuid.UUID, int, bool]]):
    """The waits of one event loop for tasks."""

    CHANNELS = (CHANNEL, STEPS)

    def __init__(self, read: Read = read_progress):
        super().__init__(read)

    async def wait(self, task_id: uuid.UUID, timeout: float) -> bool:
        """Whether the task ended within `timeout` seconds."""
        return await self.wait_change(task_id, timeout, NEVER)

    async def wait_change(self, task_id: uuid.UUID, timeout: float, seen: int) -> bool:
        """Whether the task got an event with a number above `seen`, or ended, within `timeout` seconds."""
        return await self.wait_for(task_id, timeout, seen)

    def found(self, one: tuple[uuid.UUID, int, bool]) -> None:
        task_id, seq, ended = one
        for wait in self.waits(task_id):
            if ended or seq > wait.seen:
                wait.woken.set()

    def heard(self, channel: str, message: object) -> None:
        for task_id in message if isinstance(message, list) else ():
            for wait in self.waits(uuid.UUID(task_id)):
                if channel == CHANNEL or wait.seen != NEVER:
                    wait.woken.set()


hub = waits.PerLoop(Hub)
"""The hub of the running event loop; a web process has one."""
