from django.apps import AppConfig


class InsightConfig(AppConfig):
    name = "insight"
    default_auto_field = "django.db.models.BigAutoField"
