from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('registry', '0005_hooks'),
    ]

    operations = [
        migrations.CreateModel(
            name='CatalogEvent',
            fields=[
                ('pk', models.CompositePrimaryKey('namespace', 'version', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('namespace', models.CharField(max_length=63)),
                ('version', models.BigIntegerField()),
                ('number', models.IntegerField()),
                ('event', models.CharField(max_length=32)),
                ('document', models.JSONField()),
            ],
            options={
                'verbose_name': 'catalog event',
                'verbose_name_plural': 'catalog events',
            },
        ),
    ]
