import django.db.models.deletion
from django.db import migrations, models

import common.ids


class Migration(migrations.Migration):
    dependencies = [
        ("registry", "0004_instance_probes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Hook",
            fields=[
                ("id", models.UUIDField(default=common.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("events", models.JSONField(default=list, verbose_name="events")),
                ("url", models.CharField(blank=True, max_length=2048, verbose_name="address")),
                ("command", models.CharField(blank=True, max_length=64, verbose_name="command")),
                ("secrets", models.BinaryField(default=bytes)),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("created_by", models.CharField(blank=True, max_length=200, verbose_name="by")),
                ("failing_since", models.DateTimeField(blank=True, null=True, verbose_name="failing since")),
                ("last_error", models.CharField(blank=True, max_length=500, verbose_name="last error")),
                ("stopped_at", models.DateTimeField(blank=True, null=True, verbose_name="stopped")),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hooks",
                        to="registry.agent",
                        verbose_name="agent",
                    ),
                ),
                (
                    "namespace",
                    models.ForeignKey(
                        db_column="namespace",
                        on_delete=django.db.models.deletion.PROTECT,
                        to="registry.namespace",
                        verbose_name="namespace",
                    ),
                ),
            ],
            options={
                "verbose_name": "hook",
                "verbose_name_plural": "hooks",
            },
        ),
        migrations.CreateModel(
            name="HookFiring",
            fields=[
                ("id", models.UUIDField(default=common.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("about", models.CharField(max_length=250)),
                ("event", models.CharField(max_length=32, verbose_name="event")),
                ("agent_id", models.CharField(blank=True, max_length=128, verbose_name="agent")),
                ("body", models.BinaryField()),
                (
                    "state",
                    models.CharField(
                        choices=[("PENDING", "pending"), ("DELIVERED", "delivered"), ("DEAD", "dead")],
                        default="PENDING",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("attempts", models.SmallIntegerField(default=0, verbose_name="tries")),
                ("due_at", models.DateTimeField(null=True, verbose_name="next try")),
                ("last_error", models.CharField(blank=True, max_length=500, verbose_name="last error")),
                ("tries", models.JSONField(default=list, verbose_name="tries")),
                ("created_at", models.DateTimeField(verbose_name="created")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                (
                    "hook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="firings",
                        to="registry.hook",
                        verbose_name="hook",
                    ),
                ),
            ],
            options={
                "verbose_name": "firing",
                "verbose_name_plural": "firings",
                "ordering": ["-id"],
            },
        ),
        migrations.AddIndex(
            model_name="hook",
            index=models.Index(fields=["namespace", "-id"], name="hook_newest"),
        ),
        migrations.AddIndex(
            model_name="hookfiring",
            index=models.Index(condition=models.Q(("state", "PENDING")), fields=["due_at"], name="firing_due"),
        ),
        migrations.AddIndex(
            model_name="hookfiring",
            index=models.Index(
                condition=models.Q(("state", "PENDING")), fields=["hook", "due_at"], name="firing_of_hook"
            ),
        ),
        migrations.AddIndex(
            model_name="hookfiring",
            index=models.Index(fields=["hook", "-id"], name="firing_newest"),
        ),
        migrations.AddIndex(
            model_name="hookfiring",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="firing_ended"
            ),
        ),
        migrations.AddConstraint(
            model_name="hookfiring",
            constraint=models.UniqueConstraint(fields=("hook", "about"), name="firing_once"),
        ),
    ]
