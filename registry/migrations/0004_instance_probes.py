from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    dependencies = [("registry", "0003_instance_left_at")]

    operations = [
        migrations.AddField("instance", "probe_due_at", models.DateTimeField(default=common.clock.now, editable=False)),
        migrations.AddField("instance", "probe_claimed_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField(
            "instance",
            "probe_failures",
            models.IntegerField(default=0, editable=False, verbose_name="failed probes in a row"),
        ),
        migrations.AddField(
            "instance",
            "probe_successes",
            models.IntegerField(default=0, editable=False, verbose_name="good probes in a row"),
        ),
        migrations.AddField(
            "instance",
            "probed_at",
            models.DateTimeField(editable=False, null=True, verbose_name="last probe"),
        ),
        migrations.AddField(
            "instance",
            "probe_reason",
            models.CharField(blank=True, editable=False, max_length=500, verbose_name="what the last probe found"),
        ),
        migrations.AddIndex(
            "instance",
            models.Index(condition=models.Q(("left_at", None)), fields=["probe_due_at"], name="probe_due"),
        ),
    ]
