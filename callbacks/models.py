"""What must be told to whom, and every try to tell it.

A callback knows an id, an address, a body and whose secret signs it; it knows nothing of tasks. Both tables are
range-partitioned by the UUIDv7 of the subject that a callback tells of (its id carries the same milliseconds).
`due_at` is schedule and lease in one: a claim moves it past the longest delivery, so a dead worker's claim lapses.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _


class CallbackState(models.TextChoices):
    PENDING = "PENDING", _("pending")  # due at due_at
    DELIVERED = "DELIVERED", _("delivered")  # the receiver answered 2xx
    DEAD = "DEAD", _("dead")  # given up: schedule exhausted, 410, or a refused address
    SUPERSEDED = "SUPERSEDED", _("superseded")  # a newer message about the same subject took its place


class Callback(models.Model):
    """One message to a receiver, told until it is told."""

    id = models.UUIDField(primary_key=True)  # webhook-id is "msg_" and its hex digits
    subject_id = models.UUIDField(_("subject"))
    namespace = models.CharField(_("namespace"), max_length=63)
    client = models.CharField(_("client"), max_length=128)
    url = models.CharField(_("address"), max_length=2048)
    auth_token = models.BinaryField(null=True)  # encrypted
    traceparent = models.CharField(max_length=55, blank=True)
    body = models.BinaryField()  # the same bytes for every delivery
    schedule = models.CharField(_("schedule"), max_length=16, default="standard")
    follows = models.BooleanField(default=False, db_default=False)  # told after the one before, and besides it
    state = models.CharField(_("state"), max_length=16, choices=CallbackState, default=CallbackState.PENDING)
    attempts = models.SmallIntegerField(_("deliveries tried"), default=0)
    series = models.SmallIntegerField(default=0)  # tries of the present schedule run; a redelivery by hand starts anew
    due_at = models.DateTimeField(_("next delivery"), null=True)
    last_error = models.CharField(_("last error"), max_length=500, null=True)
    created_at = models.DateTimeField(_("created"))
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("callback")
        verbose_name_plural = _("callbacks")
        indexes = [
            models.Index(fields=["due_at"], name="callback_due", condition=models.Q(state="PENDING")),
            models.Index(fields=["subject_id"], name="callback_subject"),
            models.Index(fields=["namespace", "client", "id"], name="callback_dead", condition=models.Q(state="DEAD")),
        ]

    def __str__(self) -> str:
        return f"msg_{self.id.hex}"


class Delivery(models.Model):
    """One try to deliver a callback; never overwritten."""

    pk = models.CompositePrimaryKey("callback_id", "number")
    callback_id = models.UUIDField()
    number = models.SmallIntegerField()
    at = models.DateTimeField()
    status = models.SmallIntegerField(null=True)  # HTTP status, NULL when there was none
    error = models.CharField(max_length=500, null=True)
    took_ms = models.IntegerField()
    answer = models.BinaryField(null=True)  # capped
    next_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
