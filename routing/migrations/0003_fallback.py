from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0002_strikes")]

    operations = [
        migrations.AddField(model_name="task", name="fallback", field=models.JSONField(null=True)),
        migrations.CreateModel(
            name="GoodResult",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "namespace",
                        "client",
                        "ability",
                        "digest",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("client", models.CharField(max_length=128)),
                ("ability", models.CharField(max_length=200)),
                ("digest", models.BinaryField()),
                ("task_id", models.UUIDField()),
                ("at", models.DateTimeField(db_index=True)),
            ],
            options={"verbose_name": "good result", "verbose_name_plural": "good results"},
        ),
    ]
