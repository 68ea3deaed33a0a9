"""Proposals of lines and notes for readable memories. Editors change, approve and reject them."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OfMemory, needs_attention, row_action, user_of
from memories.models import Member, Proposal, Reader, User
from memories.models.memory.new_version import numbers_of
from memories.models.memory.proposals import MAX_LENGTH
from memories.pipeline.memory import review


def may_decide(user: User, proposal: Proposal) -> bool:
    """Return whether the user is an editor of the workspace, as on the pages."""
    return proposal.memory.workspace.role_of(Reader.of(user)) in Member.EDITING


def approve(proposal: Proposal, *, by: User) -> bool:
    return may_decide(by, proposal) and review.approve(proposal, by=by)


def reject(proposal: Proposal, *, by: User) -> bool:
    return may_decide(by, proposal) and review.reject(proposal, by=by)


class ProposalForm(forms.ModelForm):  # type: ignore[type-arg]
    """The proposed text, and the version of the memory when the page was opened.

    Cleaning the form approves the proposal with the text, or rejects it. If somebody else decided about
    it or changed the memory, the form changes nothing, and shows the typed text again.
    """

    text = forms.CharField(
        label=_("text"),
        required=False,
        max_length=MAX_LENGTH,
        help_text=_("Approving saves this text. Empty: the proposed text."),
        widget=forms.Textarea(attrs={"rows": 4, "cols": 100}),
    )
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    user: User  # set by ProposalAdmin

    class Meta:
        model = Proposal
        fields = ("text",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_stale = False
        self.initial = {**self.initial, **self._current_version()}

    def _current_version(self) -> dict[str, int]:
        based_on, revision = numbers_of(self.instance.memory.current)
        return {"based_on": based_on, "revision": revision}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and not self._decide(cleaned):
            self._show_conflict(cleaned)
        return cleaned

    def _decide(self, cleaned: dict[str, Any]) -> bool:
        if "_reject" in self.data:
            return review.reject(self.instance, by=self.user)
        seen = (cleaned["based_on"], cleaned["revision"])
        return review.approve(self.instance, by=self.user, text=cleaned["text"], seen=seen)

    def _show_conflict(self, cleaned: dict[str, Any]) -> None:
        """Add the reason as an error. From then on, the form is based on the current version."""
        self.is_stale = True
        self.instance.refresh_from_db()
        current = self._current_version()
        self.data = {**self.data.dict(), **current}  # type: ignore[attr-defined]
        if self.instance.state != Proposal.State.OPEN:
            text = gettext(
                "Nothing was changed. This proposal was decided already: %(state)s. "
                "Your text is still below."
            ) % {"state": self.instance.get_state_display()}
        elif any(cleaned[name] != number for name, number in current.items()):
            text = gettext(
                "Nothing was changed. The memory has changed since you opened this form. Your text "
                "is still below. Check the memory, then approve again."
            )
        else:
            text = gettext(
                "Nothing was changed. The memory cannot have this text, or has it already."
            )
        self.add_error(None, text)


@admin.register(Proposal)
class ProposalAdmin(OfMemory):
    form = ProposalForm
    list_display = (
        "id",
        "beginning",
        "note_type",
        "place",
        "state",
        "author",
        "api_key",
        "decided_by",
        "created_at",
    )
    details = ("decided_at", "reason", "source_text", "line_text", "text")
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(Proposal.State.OPEN),
        "state",
        *OfMemory.list_filter,
    )
    list_select_related = (*OfMemory.list_select_related, "author", "api_key", "decided_by")
    search_fields = ("line_text", "text")
    actions = (
        row_action("approve", _("Approve"), approve),
        row_action("reject", _("Reject"), reject),
    )

    def has_change_permission(self, request: HttpRequest, obj: Proposal | None = None) -> bool:
        """Allow decisions about open proposals. The form refuses those about decided ones."""
        if not (self.has_view_permission(request, obj) and self.has_operate_permission(request)):
            return False
        if obj is None:
            return True
        is_open = request.method == "POST" or obj.state == Proposal.State.OPEN
        return is_open and may_decide(user_of(request), obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        is_editable = self.has_change_permission(request, obj)
        hidden = ("based_on", "revision") if is_editable else ()
        return (*super().get_fields(request, obj), *hidden)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in super().get_fields(request, obj) if name != "text"]

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        return type("ProposalForm", (form,), {"user": user_of(request)})

    def save_model(self, request: HttpRequest, obj: Proposal, form: Any, change: Any) -> None:
        pass  # the form has decided about the proposal

    def response_change(self, request: HttpRequest, obj: Proposal) -> HttpResponse:
        text = (
            ngettext("%(n)s proposal approved.", "%(n)s proposals approved.", 1)
            if obj.state == Proposal.State.APPROVED
            else ngettext("%(n)s proposal rejected.", "%(n)s proposals rejected.", 1)
        )
        self.message_user(request, text % {"n": 1}, messages.SUCCESS)
        return self.response_post_save_change(request, obj)
