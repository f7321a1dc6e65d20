"""What somebody should look at."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from common.ids import uuid7


class Alert(models.Model):
    """One trouble from when it was found until it was found no more.

    Of one kind about one subject there is at most one that has not ended.
    """

    class Kind(models.TextChoices):
        AGENT_OFFLINE = "AGENT_OFFLINE", _("agent offline")
        INSTANCES_OFFLINE = "INSTANCES_OFFLINE", _("instances offline")
        BREAKER_OPEN = "BREAKER_OPEN", _("breaker open")
        CALLBACK_FAILING = "CALLBACK_FAILING", _("callbacks fail")
        CALLBACK_DEAD = "CALLBACK_DEAD", _("callbacks given up")
        QUEUE_AGE = "QUEUE_AGE", _("tasks wait too long")
        SUCCESS_LOW = "SUCCESS_LOW", _("too many failures")
        LATENCY_SHIFTED = "LATENCY_SHIFTED", _("slower than before")

    class Severity(models.TextChoices):
        WARNING = "warning", _("warning")
        CRITICAL = "critical", _("critical")

    id = models.UUIDField(primary_key=True, default=uuid7)
    namespace = models.CharField(_("namespace"), max_length=63)
    kind = models.CharField(_("kind"), max_length=32, choices=Kind)
    severity = models.CharField(_("severity"), max_length=16, choices=Severity)
    subject = models.CharField(_("about"), max_length=300)  # agent:a, ability:x, client:c
    agent_id = models.CharField(_("agent"), max_length=128, blank=True)  # whose owner is concerned
    details = models.JSONField(default=dict)  # the figures behind it, as last seen
    count = models.IntegerField(_("times"), default=1)  # it came back so soon that it is still the same
    raised_at = models.DateTimeField(_("since"))
    seen_at = models.DateTimeField(_("last seen"))
    ended_at = models.DateTimeField(_("ended"), null=True)
    acked_at = models.DateTimeField(_("acknowledged"), null=True)
    acked_by = models.CharField(_("acknowledged by"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("alert")
        verbose_name_plural = _("alerts")
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "kind", "subject"], name="alert_once", condition=models.Q(ended_at=None)
            )
        ]
        indexes = [
            models.Index(fields=["namespace", "id"], name="alert_namespace"),
            models.Index(fields=["kind", "subject", "ended_at"], name="alert_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class Bulk(models.Model):
    """One action on all tasks that a filter finds, worked off in pages in the order of their ids."""

    class Action(models.TextChoices):
        RETRY = "retry", _("retry")
        CANCEL = "cancel", _("cancel")
        REDELIVER = "redeliver", _("redeliver")

    class State(models.TextChoices):
        PREVIEW = "PREVIEW", _("preview")  # counted, and nothing else
        RUNNING = "RUNNING", _("running")
        DONE = "DONE", _("done")
        STOPPED = "STOPPED", _("stopped")

    id = models.UUIDField(primary_key=True, default=uuid7)
    namespace = models.CharField(_("namespace"), max_length=63)
    client = models.CharField(_("client"), max_length=128, null=True)  # whose tasks only; NULL = everyone's
    action = models.CharField(_("action"), max_length=16, choices=Action)
    filter = models.JSONField(_("filter"))
    state = models.CharField(_("state"), max_length=16, choices=State)
    count = models.IntegerField(_("tasks found"))
    done = models.IntegerField(_("done"), default=0)
    skipped = models.IntegerField(_("skipped"), default=0)  # had moved on by the time of their turn
    cursor = models.UUIDField(null=True)  # the last task whose turn it was
    leased_until = models.DateTimeField(null=True)  # by the worker that is at it
    actor = models.CharField(_("by"), max_length=200)
    ip = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(_("created"))
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("bulk action")
        verbose_name_plural = _("bulk actions")
        indexes = [models.Index(fields=["id"], name="bulk_running", condition=models.Q(state="RUNNING"))]

    def __str__(self) -> str:
        return f"{self.action} × {self.count}"


class SavedView(models.Model):
    """A person's own name for a list of tasks: the query of its address, not the tasks."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=60)
    query = models.CharField(_("query"), max_length=4000)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_once")]

    def __str__(self) -> str:
        return self.name
