"""Routes, tasks and everything that happened to them.

Task, TaskBody, Attempt and Event are range-partitioned by the task's UUIDv7 (docs/decisions/0001-tables.md), so
they carry no foreign keys in the database. Columns that a hot UPDATE changes are kept out of indexes: `waiting` and
`worker` change with a claim, `outcome` with the end, and nothing else that is indexed changes in between.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _

from registry.models import Namespace
from routing.states import Certainty, TaskError, TaskState


class Route(models.Model):
    """An ability's way to its agents: strategy, candidates and settings."""

    namespace = models.ForeignKey(Namespace, models.PROTECT, db_column="namespace", verbose_name=_("namespace"))
    ability = models.CharField(_("ability"), max_length=200)
    strategy = models.CharField(_("strategy"), max_length=32, default="least_conn")
    settings = models.JSONField(_("settings"), default=dict, blank=True)  # retry, breaker, limits, fallback, … as given
    revision = models.IntegerField(_("revision"), default=1)  # optimistic lock between two editors
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    updated_by = models.CharField(_("by"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        constraints = [models.UniqueConstraint(fields=["namespace", "ability"], name="route_once")]

    def __str__(self) -> str:
        return self.ability


class Candidate(models.Model):
    """One agent that may serve a route; weights are traffic shares, no weight = in the strategy's pool."""

    route = models.ForeignKey(Route, models.CASCADE, related_name="candidates", verbose_name=_("route"))
    position = models.IntegerField(default=0)
    agent_id = models.CharField(_("agent"), max_length=128)
    capability = models.CharField(_("capability"), max_length=128, blank=True)  # empty: ability name or its last word
    version = models.CharField(_("version"), max_length=64, blank=True)
    weight = models.IntegerField(_("weight"), null=True, blank=True)

    class Meta:
        verbose_name = _("candidate")
        verbose_name_plural = _("candidates")
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return f"{self.agent_id} {'' if self.weight is None else self.weight}".strip()


class Worker(models.Model):
    """A dispatching process: one row a boot, its lease renewed by the database's clock."""

    boot_id = models.UUIDField(primary_key=True)
    node = models.CharField(_("node"), max_length=200)  # host:pid
    started_at = models.DateTimeField(_("started"))
    expires_at = models.DateTimeField(_("lease until"), db_index=True)
    progress_at = models.DateTimeField(_("last progress"), null=True, blank=True)  # last finished piece of work
    inflight = models.IntegerField(_("in flight"), default=0)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.node


class Leader(models.Model):
    """Who leads a duty that must run once ("beat"); a new holder raises the epoch."""

    duty = models.CharField(_("duty"), max_length=32, primary_key=True)
    holder = models.CharField(_("holder"), max_length=200)
    epoch = models.BigIntegerField(default=1)
    expires_at = models.DateTimeField(_("lease until"))

    class Meta:
        verbose_name = _("leader")
        verbose_name_plural = _("leaders")


class Task(models.Model):
    """One request's life. Narrow on purpose: bodies are in TaskBody."""

    class Priority(models.IntegerChoices):
        HIGH = 0, _("high")
        NORMAL = 1, _("normal")
        LOW = 2, _("low")

    id = models.UUIDField(primary_key=True)
    namespace = models.CharField(_("namespace"), max_length=63)
    client = models.CharField(_("client"), max_length=128)
    ability = models.CharField(_("ability"), max_length=200)
    correlation_id = models.CharField(_("correlation id"), max_length=128, null=True)
    trace_id = models.CharField(_("trace id"), max_length=64)
    traceparent = models.CharField(max_length=55, blank=True)
    session_id = models.CharField(_("session"), max_length=128, null=True)
    parent_id = models.UUIDField(_("parent task"), null=True)
    call_path = models.JSONField(_("call path"), default=list)  # agent ids, oldest first
    priority = models.SmallIntegerField(_("priority"), choices=Priority, default=Priority.NORMAL)
    state = models.CharField(_("state"), max_length=16, choices=TaskState, default=TaskState.RECEIVED)
    state_since = models.DateTimeField(_("in this state since"))
    outcome = models.CharField(max_length=16, null=True)  # the final state, indexed; NULL while open
    seq = models.IntegerField(default=1)  # number of the last event
    waiting = models.BooleanField(default=True)  # nobody holds it: due_at says when it is wanted
    due_at = models.DateTimeField(_("next due"))
    worker = models.UUIDField(null=True)  # boot id of the process that claimed it last
    attempts = models.SmallIntegerField(_("attempts"), default=0)
    max_attempts = models.SmallIntegerField(_("attempts allowed"))
    round = models.SmallIntegerField(default=1)  # raised by a retry by hand
    strikes = models.SmallIntegerField(default=0, db_default=0)  # times that taking it up broke off before an attempt
    agent_id = models.CharField(_("agent"), max_length=128, null=True)
    instance_id = models.CharField(_("instance"), max_length=128, null=True)
    idempotency_key = models.CharField(max_length=512)
    created_at = models.DateTimeField(_("accepted"))
    not_before = models.DateTimeField(_("not before"), null=True)
    budget_at = models.DateTimeField()  # the caller's budget ends
    expires_at = models.DateTimeField()  # the time to live ends
    deadline_at = models.DateTimeField(_("deadline"))  # the earlier of both
    sent_at = models.DateTimeField(_("sent"), null=True)
    received_at = models.DateTimeField(_("received by the agent"), null=True)
    completed_at = models.DateTimeField(_("completed by the agent"), null=True)
    ended_at = models.DateTimeField(_("ended"), null=True)
    error_code = models.CharField(_("error"), max_length=32, choices=TaskError, null=True)
    error_message = models.CharField(_("error message"), max_length=2000, null=True)
    error_retryable = models.BooleanField(null=True)
    error_details = models.JSONField(null=True)
    progress = models.JSONField(null=True)  # {"percent", "message", "at"}
    timings = models.JSONField(default=dict)  # queuedMs, discoveryMs, routingMs, poolWaitMs, connectMs, agentMs
    callback_id = models.UUIDField(null=True)  # of the last final callback
    fallback = models.JSONField(null=True)  # {"step", "ability", "since", "down", "cause"} once a substitute has it

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = [
            models.Index(fields=["namespace", "client", "id"], name="task_client"),
            models.Index(fields=["namespace", "ability", "id"], name="task_ability"),
            models.Index(fields=["namespace", "outcome", "id"], name="task_outcome"),
            models.Index(fields=["trace_id"], name="task_trace"),
            models.Index(fields=["parent_id"], name="task_parent", condition=models.Q(parent_id__isnull=False)),
            models.Index(
                fields=["priority", "namespace", "ability", "client", "due_at", "id"],
                name="task_lanes",
                condition=models.Q(waiting=True),
            ),
            models.Index(fields=["due_at"], name="task_due", condition=models.Q(waiting=True)),
            models.Index(fields=["worker"], name="task_worker", condition=models.Q(outcome__isnull=True)),
            models.Index(fields=["deadline_at"], name="task_deadline", condition=models.Q(outcome__isnull=True)),
        ]

    def __str__(self) -> str:
        return str(self.id)


class TaskBody(models.Model):
    """What was sent and what came back, byte for byte."""

    task_id = models.UUIDField(primary_key=True)
    request = models.BinaryField()  # the item as received; a callback token in it is encrypted
    metadata = models.BinaryField(null=True)  # its `metadata` member, as received
    result = models.BinaryField(null=True)  # JSON {"status", "data", "degraded", "degradedBy", "agent", …}
    late = models.BinaryField(null=True)  # JSON of a result that came after the end

    class Meta:
        verbose_name = _("task body")
        verbose_name_plural = _("task bodies")


class Idempotency(models.Model):
    """Which task answers for a caller's correlationId; the uniqueness that partitioned tables cannot have."""

    pk = models.CompositePrimaryKey("namespace", "client", "correlation_id")
    namespace = models.CharField(max_length=63)
    client = models.CharField(max_length=128)
    correlation_id = models.CharField(max_length=128)
    task_id = models.UUIDField()
    digest = models.BinaryField()  # SHA-256 of the received bytes: equal bytes need no comparison by value

    class Meta:
        verbose_name = _("idempotency record")
        verbose_name_plural = _("idempotency records")
        indexes = [models.Index(fields=["correlation_id"], name="idempotency_correlation")]


class GoodResult(models.Model):
    """Which task's result may stand in for a new one: the last good one of each payload, where that was asked for."""

    pk = models.CompositePrimaryKey("namespace", "client", "ability", "digest")
    namespace = models.CharField(max_length=63)
    client = models.CharField(max_length=128)
    ability = models.CharField(max_length=200)
    digest = models.BinaryField()  # SHA-256 of the payload by value
    task_id = models.UUIDField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("good result")
        verbose_name_plural = _("good results")


class Attempt(models.Model):
    """One delivery of a task to one instance; written before the send, closed once, never overwritten."""

    pk = models.CompositePrimaryKey("task_id", "number")
    task_id = models.UUIDField()
    number = models.SmallIntegerField()
    key = models.UUIDField()  # attemptKey
    namespace = models.CharField(max_length=63)
    agent_id = models.CharField(max_length=128)
    instance_id = models.CharField(max_length=128)
    capability = models.CharField(max_length=128)
    channel = models.CharField(max_length=16)
    worker = models.UUIDField(null=True)  # who holds the connection; NULL once the agent works on its own
    certainty = models.CharField(max_length=16, choices=Certainty, default=Certainty.MAYBE_RAN)
    outcome = models.CharField(max_length=16, null=True)  # SUCCEEDED, FAILED, TIMEOUT, CANCELLED, LOST; NULL = open
    code = models.CharField(max_length=32, null=True)
    message = models.CharField(max_length=2000, null=True)
    sent_at = models.DateTimeField()
    received_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    decision = models.JSONField(null=True)  # {"strategy", "chosen", "candidates": […], "tookMs"}

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        indexes = [
            models.Index(fields=["namespace", "agent_id", "task_id"], name="attempt_agent"),
            models.Index(fields=["worker"], name="attempt_worker", condition=models.Q(ended_at__isnull=True)),
            models.Index(fields=["deadline_at"], name="attempt_deadline", condition=models.Q(ended_at__isnull=True)),
        ]


class Event(models.Model):
    """One step of a task's journey."""

    pk = models.CompositePrimaryKey("task_id", "seq")
    task_id = models.UUIDField()
    seq = models.IntegerField()
    at = models.DateTimeField()
    event = models.CharField(max_length=32)  # RECEIVED, WAITING, ROUTED, DISPATCHED, RUNNING, PROGRESS, …
    from_state = models.CharField(max_length=16, null=True)
    to_state = models.CharField(max_length=16, null=True)
    attempt = models.SmallIntegerField(null=True)
    agent_id = models.CharField(max_length=128, null=True)
    instance_id = models.CharField(max_length=128, null=True)
    node = models.CharField(max_length=200)
    elapsed_ms = models.IntegerField()  # since the task was accepted
    detail = models.JSONField(null=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
