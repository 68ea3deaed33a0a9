"""The form that edits the text and the pins of a memory, and resolves conflicts."""

from typing import Any

from django import forms
from django.db import transaction
from django.utils.text import normalize_newlines
from django.utils.translation import gettext_lazy as _

from memories.models import Memory, MemoryVersion, Reader, StaleBase, Unchanged, User
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.rules.memory import conflicts
from memories.rules.memory.lines import words_of


class PinField(forms.MultipleChoiceField):
    """Positions of lines. They are checked with the version when they are saved."""

    def valid_value(self, value: Any) -> bool:
        return str(value).isascii() and str(value).isdigit() and len(str(value)) < 6


class MemoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """The current text, and its version when the page was opened.

    Cleaning the form saves it by a compare-and-swap. If another version was saved since, the form saves
    nothing, and ``paragraphs`` contains the paragraphs of both texts with a choice for each.
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
    were_pinned = forms.CharField(required=False, widget=forms.HiddenInput)
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    user: User  # set by MemoryAdmin

    class Meta:
        model = Memory
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_unchanged = self.are_pins_saved = self.is_stale = False
        self.paragraphs: list[tuple[conflicts.Hunk, str]] = []
        self.yours, self.seen = "", 0
        self.initial = self._fill(self.instance.current)

    def _fill(self, current: MemoryVersion | None) -> dict[str, Any]:
        """Set the choices of pins, and return the values of the fields."""
        lines = list(current.lines.all()) if current else []
        pins: Any = self.fields["pinned"]
        pins.choices = [(str(line.position), words_of(line.text)) for line in lines]
        pinned = [str(line.position) for line in lines if line.pinned]
        return {
            "text": current.content if current else "",
            "pinned": pinned,
            "were_pinned": " ".join(pinned),
            "based_on": current.number if current else 0,
            "revision": current.revision if current else 0,
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "_choose" in self.data:
            self._show_conflict(*self._posted_conflict(), self.data)
            self.add_error(None, _("This is the combined text. Check it, then save it."))
        elif not self.errors:
            self._save(cleaned)
        return cleaned

    def _save(self, cleaned: dict[str, Any]) -> None:
        base = {"based_on": cleaned["based_on"], "revision": cleaned["revision"]}
        text = normalize_newlines(cleaned["text"])
        if "seen" in self.data:  # the form shows a conflict
            text = conflicts.resolved_text(self.data, self._hunks(*self._posted_conflict()), text)
        try:
            with transaction.atomic():
                self.are_pins_saved = self._save_pins(cleaned, **base)
                try:
                    self.instance.revise(text, by=self.user, **base)
                except Unchanged:
                    self.is_unchanged = True
        except StaleBase as stale:
            self.is_stale = True
            self._show_conflict(text, base["based_on"], stale.current, {})
            self.add_error(
                None, _("Somebody saved another text in the meantime. Your text is kept.")
            )
        except LookupError:
            self.add_error("pinned", _("This line does not exist."))
        except ValueError:
            empty = _("A memory cannot be empty. Restore an older version to undo its changes.")
            self.add_error("text", empty)

    def _save_pins(self, cleaned: dict[str, Any], **base: int) -> bool:
        """Save changed pins before the text, because they are of its old lines. Return if any changed."""
        after, before = {*cleaned["pinned"]}, {*cleaned["were_pinned"].split()}
        for position in after ^ before:
            pinned = position in after
            self.instance.pin(_number(position), by=self.user, pinned=pinned, **base)
        return after != before

    def _posted_conflict(self) -> tuple[str, int, MemoryVersion | None]:
        """Return the user's text, the number of its base, and the version that was saved meanwhile."""
        theirs = self._readable().filter(number=_number(self.data.get("based_on"))).first()
        yours = normalize_newlines(self.data.get("yours", ""))
        return yours, _number(self.data.get("seen")), theirs

    def _readable(self) -> MemoryVersionQuerySet:
        versions: MemoryVersionQuerySet = self.instance.versions.visible_to(Reader.of(self.user))
        return versions

    def _show_conflict(
        self, yours: str, seen: int, theirs: MemoryVersion | None, choices_data: Any
    ) -> None:
        """Show both texts by paragraph, and base the form on the version that was saved meanwhile."""
        hunks = self._hunks(yours, seen, theirs)
        choices = conflicts.read_choices(choices_data, hunks)
        self.paragraphs = list(zip(hunks, choices, strict=True))
        self.yours, self.seen = yours, seen
        self.data = self._fill(theirs) | {"text": conflicts.join_choices(hunks, choices)}

    def _hunks(self, yours: str, seen: int, theirs: MemoryVersion | None) -> list[conflicts.Hunk]:
        base = self._readable().filter(number=seen).first()
        return conflicts.find_hunks(
            base.content if base else "", yours, theirs.content if theirs else ""
        )


def _number(value: Any) -> int:
    """Parse a number. Return 0, which no version has, for any other text."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
