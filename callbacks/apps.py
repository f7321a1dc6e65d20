from django.apps import AppConfig


class CallbacksConfig(AppConfig):
    name = "callbacks"
    default_auto_field = "django.db.models.BigAutoField"
