"""The form that edits the text and the pins of a memory."""

import re
from typing import Any

from django import forms
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import normalize_newlines
from django.utils.translation import gettext_lazy as _

from memories.models import Draft, Memory, Reader, StaleBase, Unchanged, User
from memories.models.memory.new_version import number_and_revision
from memories.rules.memory.lines import strip_bullet


class PinField(forms.MultipleChoiceField):
    """Positions of lines. The choices may be those of a newer version, so `Memory.pin` checks them."""

    def valid_value(self, value: Any) -> bool:
        return re.fullmatch("[0-9]{1,5}", str(value)) is not None


class MemoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """The text of a memory, with the number and revision of the version when the page was opened.

    `clean` saves the text and the pins, since only saving them shows that the memory has changed
    meanwhile. The form then takes the new version as its base, and the text becomes a draft.
    """

    text = forms.CharField(
        label=_("text"), strip=False, widget=forms.Textarea(attrs={"rows": 14, "cols": 100})
    )
    pinned = PinField(
        label=_("pinned lines"),
        help_text=_("Updates keep these lines unchanged, like lines that people wrote."),
        required=False,
        # The class gives each line the whole width in the admin's own style.
        widget=forms.CheckboxSelectMultiple(attrs={"class": "radiolist"}),
    )
    initial_pins = forms.CharField(required=False, widget=forms.HiddenInput)
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    user: User  # set by MemoryAdmin

    class Meta:
        model = Memory
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_text_unchanged = self.has_changed_pins = self.is_stale = False
        self.initial = self._load_current_values()

    def _load_current_values(self) -> dict[str, Any]:
        """Set the choices of pins, and return the values of the fields."""
        current = self.instance.current
        lines = list(current.lines.all()) if current else []
        pins: Any = self.fields["pinned"]
        pins.choices = [(str(line.position), strip_bullet(line.text)) for line in lines]
        based_on, revision = number_and_revision(current)
        pinned = [str(line.position) for line in lines if line.pinned]
        return {
            "text": current.content if current else "",
            "pinned": pinned,
            "initial_pins": " ".join(pinned),
            "based_on": based_on,
            "revision": revision,
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            base = {"based_on": cleaned["based_on"], "revision": cleaned["revision"]}
            self._save(normalize_newlines(cleaned["text"]), cleaned, base)
        return cleaned

    def _save(self, text: str, cleaned: dict[str, Any], base: dict[str, int]) -> None:
        try:
            with transaction.atomic():
                self.has_changed_pins = self._save_pins(cleaned, base)
                try:
                    self.instance.revise(text, by=self.user, **base)
                except Unchanged:
                    self.is_text_unchanged = True
        except StaleBase:
            self._keep_draft(text, base)
        except LookupError:  # from `pin`
            self.add_error("pinned", _("This line does not exist."))
        except ValueError:  # from `revise`
            empty = _("A memory cannot be empty. To undo changes, restore an older version.")
            self.add_error("text", empty)

    def _save_pins(self, cleaned: dict[str, Any], base: dict[str, int]) -> bool:
        """Save changed pins before the text, because they belong to lines of the old text.

        Return whether a pin changed.
        """
        after = {*cleaned["pinned"]}
        before = {word for word in cleaned["initial_pins"].split() if word.isdecimal()}
        for position in after ^ before:
            pinned = position in after
            self.instance.pin(int(position), by=self.user, pinned=pinned, **base)
        return after != before

    def _keep_draft(self, text: str, base: dict[str, int]) -> None:
        """Save the text as a draft, which the page of the memory merges by paragraph."""
        reader, now = Reader.of(self.user), timezone.now()
        draft = Draft.objects.save_text(reader, self.instance, text, now=now, **base)
        self.is_stale = True
        self.instance.refresh_from_db()
        # The page shows this: the new base and its pins with the text of the person.
        self.data = self._load_current_values() | {"text": text}
        stale = _("Somebody saved another text in the meantime. Your text is kept.")
        link: str = ""
        if draft:
            page = f"{reverse('memories-edit', args=[self.instance.pk])}?draft=take"
            words = _("Combine both texts by paragraph")
            link = format_html(' <a href="{}">{}</a>', page, words)
        self.add_error(None, format_html("{}{}", stale, link))
