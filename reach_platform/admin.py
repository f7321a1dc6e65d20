"""What of other applications does not belong into the admin: beat's timetable is written in code, and comes back so."""

from django.contrib import admin
from django_celery_beat import models

for one in (
    models.PeriodicTask,
    models.ClockedSchedule,
    models.CrontabSchedule,
    models.IntervalSchedule,
    models.SolarSchedule,
):
    admin.site.unregister(one)
