"""Forms that know what their reader saw: who saves over what somebody else has changed meanwhile is told so instead."""

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.utils.translation import gettext as _

from common.clock import now
from registry import history
from registry.admin.past import logged_as
from registry.history import Edit

OPEN_FOR = dt.timedelta(days=1)  # how far back a form says who else was at it
SAID = 3  # edits that are named
SEEN = "admin/seen.html"  # `change_form_before_template` of pages with such a form


class SeenForm(forms.ModelForm):
    """A form of a row that carries, unseen, what the row was when the form was opened.

    When it comes back the row is locked and compared, so that nothing changes it between the comparison and the save,
    which the admin does in the same transaction.
    """

    seen = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["seen"].initial = self.seen_of(self.instance)

    def seen_of(self, row: Any) -> str:
        """What the row is, in short: of the columns that the form shows."""
        names = [field.name for field in row._meta.fields if field.name in self.shown()]
        text = json.dumps({name: getattr(row, name) for name in names}, sort_keys=True, cls=DjangoJSONEncoder)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def shown(self) -> Sequence[str]:
        """The columns that the form would write."""
        return list(self.base_fields)

    def edits_since(self, row: Any, seen: str) -> list[Edit]:
        """Who has done what to the row since, newest first."""
        name = logged_as(row)
        return history.edits(*name, since=now() - OPEN_FOR, most=1) if name else []

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        if self.instance.pk and not self.instance._state.adding:
            self._refuse_if_changed(found.get("seen", ""))
        return found

    def _refuse_if_changed(self, seen: str) -> None:
        rows = type(self.instance)._default_manager.select_for_update(of=("self",))
        row: Model | None = rows.filter(pk=self.instance.pk).first()
        if row is None:
            raise ValidationError(_("It is no longer there: somebody has removed it meanwhile."))
        if self.seen_of(row) != seen:
            raise ValidationError(conflict(self.edits_since(row, seen)))


def conflict(edits: Sequence[Edit]) -> str:
    """What somebody is told whose change would have undone another's."""
    told = " · ".join(history.in_words(one) for one in edits[:SAID]) or _("it is not known by whom")
    text = _("Nothing was saved, as somebody else has changed this meanwhile: %(edits)s. "
             "Copy what you have written, reload the page, and begin from what is there now.")  # fmt: skip
    return text % {"edits": told}
