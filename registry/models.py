"""Who may call, who can do work, and what was changed by whom.

Everything here changes rarely and is read through in-process snapshots; each change raises
`Namespace.version`, which every process compares with its snapshot (docs/design.md, "Snapshots").
"""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.ids import uuid7
from registry.states import FiringState, InstanceState


class Namespace(models.Model):
    """An isolated environment or tenant; nothing is matched, read or counted across namespaces."""

    name = models.CharField(_("name"), max_length=63, primary_key=True)
    version = models.BigIntegerField(default=1, editable=False)  # raised by every change that routing must see
    settings = models.JSONField(_("settings"), default=dict, blank=True)  # retentionDays, intentRules
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("namespace")
        verbose_name_plural = _("namespaces")

    def __str__(self) -> str:
        return self.name


class Client(models.Model):
    """A caller's identity: a business team or system."""

    class Schedule(models.TextChoices):
        STANDARD = "standard", _("standard (20 minutes)")
        LONG = "long", _("long (a day)")

    namespace = models.ForeignKey(Namespace, models.PROTECT, db_column="namespace", verbose_name=_("namespace"))
    name = models.CharField(_("name"), max_length=128)
    abilities = models.JSONField(_("allowed abilities"), default=list)  # glob patterns, ["*"] = all
    limits = models.JSONField(_("limits"), default=dict, blank=True)  # ratePerSecond, burst, maxConcurrency
    callback_schedule = models.CharField(
        _("callback schedule"), max_length=16, choices=Schedule, default=Schedule.STANDARD
    )
    callback_secrets = models.BinaryField(default=bytes)  # encrypted JSON [{"secret": "whsec_…", "until": null | time}]
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("client")
        verbose_name_plural = _("clients")
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="client_once")]

    def __str__(self) -> str:
        return f"{self.namespace_id}/{self.name}"


class Credential(models.Model):
    """One key and one access-key pair; of a client, of an agent, or of an operator."""

    class Kind(models.TextChoices):
        CLIENT = "client", _("client")
        AGENT = "agent", _("agent")
        OPERATOR = "operator", _("operator")

    kind = models.CharField(_("kind"), max_length=16, choices=Kind)
    namespace = models.ForeignKey(
        Namespace, models.PROTECT, db_column="namespace", null=True, blank=True, verbose_name=_("namespace")
    )
    client = models.ForeignKey(Client, models.CASCADE, null=True, blank=True, verbose_name=_("client"))
    agent_id = models.CharField(_("agent"), max_length=128, blank=True)  # may be issued before the agent registers
    key_hash = models.CharField(max_length=64, unique=True)  # SHA-256 of a high-entropy key
    key_hint = models.CharField(_("key ends with"), max_length=8)
    access_key = models.CharField(_("access key"), max_length=64, unique=True)
    secret_key = models.BinaryField()  # encrypted; HMAC needs it in clear
    scopes = models.JSONField(_("scopes"), default=list)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)  # rotation: the end of the overlap
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = _("credential")
        verbose_name_plural = _("credentials")
        indexes = [models.Index(fields=["namespace", "agent_id"], name="credential_agent")]

    def __str__(self) -> str:
        return f"{self.kind} …{self.key_hint}"


class Agent(models.Model):
    """A named service with an owner team and its current manifest."""

    namespace = models.ForeignKey(Namespace, models.PROTECT, db_column="namespace", verbose_name=_("namespace"))
    agent_id = models.CharField(_("agent"), max_length=128)
    display_name = models.CharField(_("name"), max_length=200, blank=True)
    owner = models.CharField(_("owner team"), max_length=128, blank=True)
    tags = models.JSONField(_("tags"), default=list, blank=True)
    version = models.CharField(_("version"), max_length=64, blank=True)
    revision = models.IntegerField(_("revision"), default=0)
    manifest = models.JSONField(_("manifest"), default=dict)  # the current revision, normalised
    warnings = models.JSONField(_("warnings"), default=list, blank=True)
    external = models.BooleanField(_("external"), default=False)
    maintenance = models.BooleanField(_("maintenance"), default=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        constraints = [models.UniqueConstraint(fields=["namespace", "agent_id"], name="agent_once")]

    def __str__(self) -> str:
        return self.agent_id


class Revision(models.Model):
    """One version of an agent's manifest, kept for ever."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="revisions", verbose_name=_("agent"))
    number = models.IntegerField(_("number"))
    manifest = models.JSONField(_("manifest"))
    source = models.TextField(_("as sent"))
    content_type = models.CharField(max_length=64, default="application/json")
    digest = models.CharField(max_length=64)  # SHA-256 of the normalised manifest: equal = no new revision
    warnings = models.JSONField(_("warnings"), default=list, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    created_by = models.CharField(_("by"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("manifest revision")
        verbose_name_plural = _("manifest revisions")
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="revision_once")]

    def __str__(self) -> str:
        return f"{self.agent} r{self.number}"


class Capability(models.Model):
    """One function that an agent declares; rewritten from the manifest with each revision."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="capabilities", verbose_name=_("agent"))
    name = models.CharField(_("name"), max_length=128)
    description = models.TextField(_("description"), blank=True)
    input_schema = models.JSONField(_("input schema"), null=True, blank=True)  # JSON Schema, shorthand expanded
    output_schema = models.JSONField(_("output schema"), null=True, blank=True)
    spec = models.JSONField(_("declaration"), default=dict)  # the capability's part of the manifest, normalised

    class Meta:
        verbose_name = _("capability")
        verbose_name_plural = _("capabilities")
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="capability_once")]

    def __str__(self) -> str:
        return f"{self.agent}.{self.name}"


class AgentSecret(models.Model):
    """A secret that outgoing headers may name as ${secret:name}; write-only."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="secrets", verbose_name=_("agent"))
    name = models.CharField(_("name"), max_length=64)
    value = models.BinaryField()  # encrypted
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("agent secret")
        verbose_name_plural = _("agent secrets")
        constraints = [models.UniqueConstraint(fields=["agent", "name"], name="agent_secret_once")]

    def __str__(self) -> str:
        return self.name


class Instance(models.Model):
    """One running copy of an agent."""

    agent = models.ForeignKey(Agent, models.CASCADE, related_name="instances", verbose_name=_("agent"))
    instance_id = models.CharField(_("instance"), max_length=128)
    implicit = models.BooleanField(_("from the manifest"), default=False)  # endpoints without a registered instance
    invoke_url = models.CharField(_("invoke address"), max_length=2048, blank=True)
    health_url = models.CharField(_("health address"), max_length=2048, blank=True)
    lookup_url = models.CharField(_("lookup address"), max_length=2048, blank=True)
    networks = models.JSONField(_("addresses by network"), default=dict, blank=True)
    region = models.CharField(_("region"), max_length=64, blank=True)
    zone = models.CharField(_("zone"), max_length=64, blank=True)
    version = models.CharField(_("version"), max_length=64, blank=True)
    labels = models.JSONField(_("labels"), default=dict, blank=True)
    cost = models.JSONField(_("cost"), null=True, blank=True)
    weight = models.IntegerField(_("weight"), default=100)
    max_concurrency = models.IntegerField(_("max concurrency"), null=True, blank=True)
    prefer_channel = models.CharField(_("preferred channel"), max_length=16, blank=True)
    state = models.CharField(_("state"), max_length=16, choices=InstanceState, default=InstanceState.NEW)
    state_since = models.DateTimeField(_("since"))
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    draining = models.BooleanField(_("draining"), default=False)
    weight_percent = models.IntegerField(_("self-set weight %"), default=100)
    heartbeat = models.JSONField(_("last heartbeat"), null=True, blank=True)  # as last written, on change only
    registered_at = models.DateTimeField(_("registered"))
    last_heard_at = models.DateTimeField(_("last heard"), null=True, blank=True)
    left_at = models.DateTimeField(_("left"), null=True, blank=True)  # said goodbye; only a new PUT brings it back
    probe_due_at = models.DateTimeField(default=now, editable=False)
    probe_claimed_at = models.DateTimeField(null=True, editable=False)  # whose result counts; empty: none under way
    probe_failures = models.IntegerField(_("failed probes in a row"), default=0, editable=False)
    probe_successes = models.IntegerField(_("good probes in a row"), default=0, editable=False)
    probed_at = models.DateTimeField(_("last probe"), null=True, editable=False)
    probe_reason = models.CharField(_("what the last probe found"), max_length=500, blank=True, editable=False)

    class Meta:
        verbose_name = _("instance")
        verbose_name_plural = _("instances")
        constraints = [models.UniqueConstraint(fields=["agent", "instance_id"], name="instance_once")]
        indexes = [
            models.Index(fields=["probe_due_at"], name="probe_due", condition=models.Q(left_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.agent}/{self.instance_id}"


class StateChange(models.Model):
    """One move of an instance's state and the evidence for it."""

    instance = models.ForeignKey(Instance, models.CASCADE, related_name="changes", verbose_name=_("instance"))
    at = models.DateTimeField(_("at"))
    from_state = models.CharField(_("from"), max_length=16, blank=True)
    to_state = models.CharField(_("to"), max_length=16)
    reason = models.CharField(_("reason"), max_length=500, blank=True)

    class Meta:
        verbose_name = _("state change")
        verbose_name_plural = _("state changes")
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["instance", "-at"], name="state_change_newest")]


class Hook(models.Model):
    """Whom to tell when an agent's state or resources change: a receiver's address, or a command of the operator's."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    namespace = models.ForeignKey(Namespace, models.PROTECT, db_column="namespace", verbose_name=_("namespace"))
    agent = models.ForeignKey(
        Agent, models.CASCADE, null=True, blank=True, related_name="hooks", verbose_name=_("agent")
    )  # empty = every agent of the namespace
    events = models.JSONField(_("events"), default=list)
    url = models.CharField(_("address"), max_length=2048, blank=True)
    command = models.CharField(_("command"), max_length=64, blank=True)  # a name in REACH_HOOK_COMMANDS
    secrets = models.BinaryField(default=bytes)  # encrypted JSON [{"secret": "whsec_…", "until": null | time}]
    created_at = models.DateTimeField(_("created"))
    created_by = models.CharField(_("by"), max_length=200, blank=True)
    failing_since = models.DateTimeField(_("failing since"), null=True, blank=True)
    last_error = models.CharField(_("last error"), max_length=500, blank=True)
    stopped_at = models.DateTimeField(_("stopped"), null=True, blank=True)  # the receiver said 410; a good test resumes

    class Meta:
        verbose_name = _("hook")
        verbose_name_plural = _("hooks")
        indexes = [models.Index(fields=["namespace", "-id"], name="hook_newest")]

    def __str__(self) -> str:
        return str(self.id)


class HookFiring(models.Model):
    """One change to be told by one hook. `due_at` is schedule and lease in one, as a claim moves it on."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)  # webhook-id is "msg_" and its hex digits
    hook = models.ForeignKey(Hook, models.CASCADE, related_name="firings", verbose_name=_("hook"))
    about = models.CharField(max_length=250)  # the change, so that none is told twice
    event = models.CharField(_("event"), max_length=32)
    agent_id = models.CharField(_("agent"), max_length=128, blank=True)
    body = models.BinaryField()  # the same bytes for every try
    state = models.CharField(_("state"), max_length=16, choices=FiringState, default=FiringState.PENDING)
    attempts = models.SmallIntegerField(_("tries"), default=0)
    due_at = models.DateTimeField(_("next try"), null=True)
    last_error = models.CharField(_("last error"), max_length=500, blank=True)
    tries = models.JSONField(_("tries"), default=list)  # [{"number", "at", "status", "error", "tookMs"}], only added to
    created_at = models.DateTimeField(_("created"))
    ended_at = models.DateTimeField(_("ended"), null=True)

    class Meta:
        verbose_name = _("firing")
        verbose_name_plural = _("firings")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["hook", "about"], name="firing_once")]
        indexes = [
            models.Index(fields=["due_at"], name="firing_due", condition=models.Q(state="PENDING")),
            models.Index(fields=["hook", "due_at"], name="firing_of_hook", condition=models.Q(state="PENDING")),
            models.Index(fields=["hook", "-id"], name="firing_newest"),
            models.Index(fields=["ended_at"], name="firing_ended", condition=models.Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"msg_{self.id.hex}"


class Audit(models.Model):
    """One change or human action; append-only. The leader seals committed rows into a hash chain."""

    at = models.DateTimeField(_("at"), db_index=True)
    actor = models.CharField(_("who"), max_length=200)
    ip = models.CharField(_("from"), max_length=64, blank=True)
    namespace = models.CharField(_("namespace"), max_length=63, blank=True)
    action = models.CharField(_("action"), max_length=64)
    object = models.CharField(_("object"), max_length=300)
    before = models.JSONField(_("before"), null=True, blank=True)
    after = models.JSONField(_("after"), null=True, blank=True)
    seal = models.BinaryField(null=True, editable=False)  # sha256(previous seal, this row)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        indexes = [models.Index(fields=["namespace", "-at"], name="audit_newest")]


class Membership(models.Model):
    """What a person who logs in may see and do."""

    class Role(models.TextChoices):
        OWNER = "owner", _("agent owner")
        SUPPORT = "support", _("support")
        OPERATOR = "operator", _("operator")

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=16, choices=Role)
    team = models.CharField(_("team"), max_length=128, blank=True)  # an owner's team = Agent.owner
    namespaces = models.JSONField(_("namespaces"), default=list)  # ["*"] = all

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class Nonce(models.Model):
    """A signature's nonce, remembered here while Redis is away so that a request cannot be replayed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of access key and nonce
    expires_at = models.DateTimeField(db_index=True)


class CatalogEvent(models.Model):
    """Something that whoever watches the catalog hears of. `version` is the namespace's, which the change raised: it is
    handed out in the order of the commits, so nothing comes up behind a reader."""

    pk = models.CompositePrimaryKey("namespace", "version", "number")
    namespace = models.CharField(max_length=63)
    version = models.BigIntegerField()
    number = models.IntegerField()  # several of one change, from 0
    event = models.CharField(max_length=32)
    document = models.JSONField()

    class Meta:
        verbose_name = _("catalog event")
        verbose_name_plural = _("catalog events")


class Listening(models.Model):
    """Since and until when web processes hear heartbeats without a gap; one row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField()
    until = models.DateTimeField()
