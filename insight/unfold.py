"""The admin's looks, as django-unfold wants them in the setting UNFOLD: the console's name, sign and colour."""

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

# The console's blue in OKLCH, from the lightest to the darkest.
_BLUE = {
    "50": "oklch(97% .014 255)", "100": "oklch(94% .03 255)", "200": "oklch(88% .06 255)", "300": "oklch(80% .1 255)",
    "400": "oklch(71% .13 255)", "500": "oklch(63% .14 255)", "600": "oklch(47% .13 255)", "700": "oklch(42% .12 255)",
    "800": "oklch(36% .1 255)", "900": "oklch(31% .08 255)", "950": "oklch(23% .06 255)",
}  # fmt: skip

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Agent-Reach",
    "SITE_HEADER": "Agent-Reach",
    "SITE_URL": reverse_lazy("console:tasks"),
    "SITE_ICON": lambda request: static("console/icon.svg"),
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("console/icon.svg")},
    ],
    "SCRIPTS": [lambda request: static("console/admin.js")],
    "SHOW_LANGUAGES": True,
    "COLORS": {"primary": _BLUE},
    "SITE_DROPDOWN": [
        {"icon": "timeline", "title": _("Tasks and their journeys"), "link": reverse_lazy("console:tasks")},
    ],
}
