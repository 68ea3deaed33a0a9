"""The form that edits a memory in the admin: its text, its pins, and what to do about a conflict."""

from typing import Any

from django import forms
from django.db import transaction
from django.utils.text import normalize_newlines
from django.utils.translation import gettext_lazy as _

from memories.models import Memory, MemoryVersion, Reader, StaleBase, Unchanged, User
from memories.models.memory.versions import MemoryVersionQuerySet
from memories.rules.memory import conflicts
from memories.rules.memory.lines import words_of


class Pins(forms.MultipleChoiceField):
    """Positions of lines. Of which text they are is known with its number only, so they are
    checked when they are saved."""

    def valid_value(self, value: Any) -> bool:
        return str(value).isascii() and str(value).isdigit() and len(str(value)) < 6


class MemoryForm(forms.ModelForm):  # type: ignore[type-arg]
    """The current text, and which one it was when the page was opened.

    Checking and saving are one compare-and-swap, so a form that is valid is saved. Over a stale
    base nothing is: ``hunks`` are then the paragraphs of both texts, for a choice.
    """

    text = forms.CharField(
        label=_("text"), strip=False, widget=forms.Textarea(attrs={"rows": 14, "cols": 100})
    )
    pinned = Pins(
        label=_("pinned lines"),
        help_text=_("Every later update keeps them word for word, like lines that people wrote."),
        required=False,
        # The class gives each line the whole width in the admin's own style.
        widget=forms.CheckboxSelectMultiple(attrs={"class": "radiolist"}),
    )
    were_pinned = forms.CharField(required=False, widget=forms.HiddenInput)
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    user: User  # who saves, set by the admin

    class Meta:
        model = Memory
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_unchanged = self.are_pins_saved = self.is_stale = False
        self.paragraphs: list[tuple[conflicts.Hunk, str]] = []
        self.yours, self.seen = "", 0
        self.initial = self._shown(self.instance.current)

    def _shown(self, current: MemoryVersion | None) -> dict[str, Any]:
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
        given = super().clean() or {}
        if "_choose" in self.data:
            self._choose()
        elif not self.errors:
            self._save(given)
        return given

    def _save(self, given: dict[str, Any]) -> None:
        seen = {"based_on": given["based_on"], "revision": given["revision"]}
        text = self._meant(normalize_newlines(given["text"]))
        try:
            with transaction.atomic():
                self.are_pins_saved = self._pin(given, **seen)
                try:
                    self.instance.revise(text, by=self.user, **seen)
                except Unchanged:
                    self.is_unchanged = True
        except StaleBase as stale:
            self.is_stale = True
            self._show_conflict(text, given["based_on"], stale.current, {})
            self.add_error(None, _("Somebody saved another text meanwhile. Your text is kept."))
        except LookupError:
            self.add_error("pinned", _("There is no such line."))
        except ValueError:
            empty = _(
                "A memory cannot be empty. To take everything back, restore an older version."
            )
            self.add_error("text", empty)

    def _pin(self, given: dict[str, Any], **seen: int) -> bool:
        """What the person ticked or unticked, before the text: it is of the lines on screen."""
        after, before = {*given["pinned"]}, {*given["were_pinned"].split()}
        for position in after ^ before:
            pinned = position in after
            self.instance.pin(_number(position), by=self.user, pinned=pinned, **seen)
        return after != before

    def _choose(self) -> None:
        """The same conflict again, with the text that the choices make."""
        self._show_conflict(*self._met(), self.data)
        self.add_error(None, _("This is what your choices make. Check it, then save it."))

    def _meant(self, typed: str) -> str:
        """Of a conflict the text that its choices make by now, unless another was typed."""
        if "seen" not in self.data:
            return typed
        return conflicts.resolved_text(self.data, self._hunks(*self._met()), typed)

    def _met(self) -> tuple[str, int, MemoryVersion | None]:
        """What a conflict's form says: which text, begun from which version, met which one."""
        theirs = self._readable().filter(number=_number(self.data.get("based_on"))).first()
        yours = normalize_newlines(self.data.get("yours", ""))
        return yours, _number(self.data.get("seen")), theirs

    def _readable(self) -> MemoryVersionQuerySet:
        versions: MemoryVersionQuerySet = self.instance.versions.visible_to(Reader.of(self.user))
        return versions

    def _show_conflict(
        self, yours: str, seen: int, theirs: MemoryVersion | None, given: Any
    ) -> None:
        """Both texts, paragraph by paragraph; saved again, it follows the text shown now."""
        hunks = self._hunks(yours, seen, theirs)
        choices = conflicts.read_choices(given, hunks)
        self.paragraphs = list(zip(hunks, choices, strict=True))
        self.yours, self.seen = yours, seen
        self.data = self._shown(theirs) | {"text": conflicts.join_choices(hunks, choices)}

    def _hunks(self, yours: str, seen: int, theirs: MemoryVersion | None) -> list[conflicts.Hunk]:
        base = self._readable().filter(number=seen).first()
        return conflicts.find_hunks(
            base.content if base else "", yours, theirs.content if theirs else ""
        )


def _number(given: Any) -> int:
    """A version's number; 0, which none has, when it is no number."""
    text = str(given)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
