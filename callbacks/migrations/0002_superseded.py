from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("callbacks", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="callback",
            name="state",
            field=models.CharField(
                choices=[
                    ("PENDING", "pending"),
                    ("DELIVERED", "delivered"),
                    ("DEAD", "dead"),
                    ("SUPERSEDED", "superseded"),
                ],
                default="PENDING",
                max_length=16,
                verbose_name="state",
            ),
        ),
    ]
