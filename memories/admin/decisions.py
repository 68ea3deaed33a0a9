"""The form that decides about a proposal, as the pages do: approve the text or another, or reject."""

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.text import normalize_newlines
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import ReadOnlyAdmin, user_of
from memories.models import Job, Member, Proposal, Reader, User
from memories.models.memory.new_version import number_and_revision
from memories.pipeline.memory import review
from memories.rules.memory.lines import hash_text

WAITING = (Proposal.State.OPEN, Job.State.PROPOSED)
DECIDED = (
    *(Proposal.State.APPROVED, Proposal.State.REJECTED),
    *(Job.State.DONE, Job.State.REJECTED, Job.State.SUPERSEDED),
)


def may_decide(user: User, proposal: Proposal | Job) -> bool:
    """Return whether the user may read the proposal and is an editor, as on the pages."""
    reader = Reader.of(user)
    is_readable = type(proposal).objects.visible_to(reader).filter(pk=proposal.pk).exists()
    return is_readable and proposal.memory.workspace.role_of(reader) in Member.EDITING


def is_listed(proposal: Proposal | Job, user: User) -> bool:
    """Return whether the review page lists the proposal."""
    if isinstance(proposal, Proposal):
        return proposal.state == Proposal.State.OPEN
    if proposal.state != Job.State.PROPOSED:
        return False
    return proposal in review.find_proposed_jobs(proposal.memory.workspace, Reader.of(user))


def approve(proposal: Proposal | Job, *, by: User) -> bool:
    is_allowed = may_decide(by, proposal) and is_listed(proposal, by)
    return is_allowed and review.approve(proposal, by=by)


def reject(proposal: Proposal | Job, *, by: User) -> bool:
    return may_decide(by, proposal) and review.reject(proposal, by=by)


def text_field(rows: int) -> forms.CharField:
    return forms.CharField(
        label=_("text"),
        required=False,
        strip=False,
        help_text=_("Approving saves this text. Empty: the proposed text."),
        widget=forms.Textarea(attrs={"rows": rows, "cols": 100}),
    )


class DecisionForm(forms.ModelForm):  # type: ignore[type-arg]
    """The proposed ``text`` with its hash, and the version of the memory when the page was opened.

    Cleaning the form approves the proposal with the text, or rejects it. If somebody else decided
    about it or changed the memory, the form changes nothing. It shows an edited text again.
    """

    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    shown = forms.CharField(widget=forms.HiddenInput)

    max_length: ClassVar[int]  # of an edited text
    user: User  # set by DecisionAdmin

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_stale = False
        self.initial = {**self.initial, "text": self.proposed_text(), **self._current_values()}

    def proposed_text(self) -> str:
        return str(self.instance.text)

    def _current_values(self) -> dict[str, Any]:
        based_on, revision = number_and_revision(self.instance.memory.current)
        shown = hash_text(self.proposed_text())
        return {"based_on": based_on, "revision": revision, "shown": shown}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        text = cleaned["text"] = normalize_newlines(cleaned["text"])
        self.is_edited = bool(text.strip()) and hash_text(text) != cleaned["shown"]
        is_approval = "_reject" not in self.data
        if is_approval and self.is_edited and len(text) > self.max_length:
            values = {"n": len(text), "limit": self.max_length}
            message = gettext("The text has %(n)s characters. The limit is %(limit)s.") % values
            self.add_error("text", message)
        elif not self._decide(cleaned):
            self._show_conflict(cleaned)
        return cleaned

    def _decide(self, cleaned: dict[str, Any]) -> bool:
        if "_reject" in self.data:
            return review.reject(self.instance, by=self.user)
        return is_listed(self.instance, self.user) and review.approve(
            self.instance,
            by=self.user,
            text=cleaned["text"] if self.is_edited else "",
            shown=cleaned["shown"],
            seen=(cleaned["based_on"], cleaned["revision"]),
        )

    def _show_conflict(self, cleaned: dict[str, Any]) -> None:
        """Add the reason as an error. From then on, the form is based on the current version.

        It has the current proposed text, or the edit of the one that it showed before.
        """
        self.is_stale = True
        self.instance.refresh_from_db()
        current = self._current_values()
        is_same_text = current["shown"] == cleaned["shown"]
        if self.is_edited:
            current["shown"] = cleaned["shown"]
        else:
            current["text"] = self.proposed_text() or cleaned["text"]
        self.data = {**self.data.dict(), **current}  # type: ignore[attr-defined]
        if self.instance.state not in WAITING:
            text = gettext(
                "Nothing was changed. This proposal was decided already: %(state)s. "
                "Your text is still below."
            ) % {"state": self.instance.get_state_display()}
        elif not is_same_text:
            text = gettext(
                "Nothing was changed. The proposed text has changed since you opened this form. If "
                "you edited it, copy your text and open the form again."
            )
        elif any(cleaned[name] != value for name, value in current.items()):
            text = gettext(
                "Nothing was changed. The memory has changed since you opened this form. Your text "
                "is still below. Check the memory, then approve again."
            )
        else:
            text = gettext(
                "Nothing was changed. The memory cannot have this text, or has it already."
            )
        self.add_error(None, text)


class DecisionAdmin(ReadOnlyAdmin):
    """Proposals. Editors of the workspace decide about those that are waiting."""

    change_form_template = "admin/memories/decide.html"
    form_fields: ClassVar[tuple[str, ...]] = ("text", "based_on", "revision", "shown")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow decisions about waiting proposals.

        A form that was opened earlier may be sent later. It refuses the decision with a reason.
        """
        if not (self.has_view_permission(request, obj) and self.has_operate_permission(request)):
            return False
        if obj is None:
            return True
        # Django calls this method about ten times for a page.
        cached: dict[Any, bool] = request.__dict__.setdefault("decidable_proposals", {})
        if (key := (obj.pk, obj.state)) not in cached:
            user, is_post = user_of(request), request.method == "POST"
            is_open = obj.state in (*WAITING, *DECIDED) if is_post else is_listed(obj, user)
            cached[key] = is_open and may_decide(user, obj)
        return cached[key]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_fields(request, obj)
        if not self.has_change_permission(request, obj):
            return fields
        return (*(name for name in fields if name not in self.form_fields), *self.form_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_fields(request, obj)
        if not self.has_change_permission(request, obj):
            return fields
        return [name for name in fields if name not in self.form_fields]

    def get_form(self, request: HttpRequest, obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not self.has_change_permission(request, obj):
            return super().get_form(request, obj, *args, form=forms.ModelForm, **kwargs)
        form = super().get_form(request, obj, *args, **kwargs)
        return type("DecisionForm", (form,), {"user": user_of(request)})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        pass  # the form has decided about the proposal

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        text = (
            ngettext("%(n)s proposal rejected.", "%(n)s proposals rejected.", 1)
            if "_reject" in request.POST
            else ngettext("%(n)s proposal approved.", "%(n)s proposals approved.", 1)
        )
        self.message_user(request, text % {"n": 1}, messages.SUCCESS)
        return self.response_post_save_change(request, obj)
