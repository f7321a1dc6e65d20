from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("callbacks", "0002_superseded")]

    operations = [
        migrations.AddField(
            model_name="callback",
            name="follows",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
