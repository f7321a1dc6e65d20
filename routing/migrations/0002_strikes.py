from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0001_initial")]

    operations = [
        # A constant default of the database's own: no row is rewritten.
        migrations.AddField(
            model_name="task",
            name="strikes",
            field=models.SmallIntegerField(db_default=0, default=0),
        ),
    ]
