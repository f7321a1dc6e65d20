"""How the traffic page writes shares."""

from django import template
from django.utils.translation import gettext as _

register = template.Library()


@register.filter
def share_words(share: float | None) -> str:
    """A share from 0 to 1 in per cent, without needless digits; None = nobody has set one."""
    return _("as the strategy decides") if share is None else percent_words(share)


@register.filter
def percent_words(share: float | None) -> str:
    """The same; None = nothing to reckon it from."""
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return _("under 0.1 %")
    return f"{100 * share:.1f}".rstrip("0").rstrip(".") + " %"


@register.filter
def bar(share: float | None) -> str:
    """The width of a bar, in whatever language the page is."""
    return f"{100 * (share or 0):.2f}%"
