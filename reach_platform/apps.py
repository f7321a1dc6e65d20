from django.apps import AppConfig


class ReachPlatformConfig(AppConfig):
    name = "reach_platform"
    default_auto_field = "django.db.models.BigAutoField"
