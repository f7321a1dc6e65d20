from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('registry', '0006_catalog_events'),
    ]

    operations = [
        migrations.CreateModel(
            name='Listening',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
        ),
    ]
