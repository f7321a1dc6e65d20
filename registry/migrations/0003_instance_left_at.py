from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("registry", "0002_nonce")]

    operations = [
        migrations.AddField(
            model_name="instance",
            name="left_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="left"),
        ),
    ]
