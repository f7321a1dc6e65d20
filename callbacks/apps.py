from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CallbacksConfig(AppConfig):
    name = "callbacks"
    verbose_name = _("Callbacks")
    default_auto_field = "django.db.models.BigAutoField"
