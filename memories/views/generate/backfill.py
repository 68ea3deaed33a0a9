"""Backfills, for workspace admins: the estimate, the start and the progress."""

from typing import Any

from django import forms
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memories.forms import focus_first_error
from memories.models import AnotherBackfill, Backfill, Job
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.generate import job_control
from memories.pipeline.generate.backfill import NeedsPrice, check_cap, progress_of
from memories.rules.backfill_input import InvalidInput, parse_cap
from memories.rules.ingest.timestamps import to_micros
from memories.tasks import schedule_pass
from memories.views.access.access import (
    FEW_CHANNELS,
    UserRequest,
    WorkspaceAccess,
    must_administer,
    open_workspace,
)
from memories.views.pages import (
    STOP_POLLING,
    is_live,
    render_page,
    render_page_or_part,
    wants_part,
)
from memories.views.periods import since_field, since_us


class BackfillForm(forms.Form):
    """The period, cap and channels. No channel means all that the reader may read."""

    since = since_field()
    cap = forms.CharField(
        label=gettext_lazy("Limit"),
        required=False,
        max_length=30,
        help_text=gettext_lazy(
            "Tokens, such as 200000, or dollars, such as $2.50. The backfill pauses when it "
            "reaches the limit."
        ),
    )
    channel = forms.MultipleChoiceField(
        label=gettext_lazy("Channels"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: QueryDict | None = None, *, access: WorkspaceAccess) -> None:
        super().__init__(data)
        self.access = access
        field = self.fields["channel"]
        assert isinstance(field, forms.MultipleChoiceField)
        requested = data.getlist("channel") if data else []
        first_channels = access.with_workspace(access.readable_channels[:FEW_CHANNELS])
        offered = {channel.slack_id: channel for channel in first_channels} | access.find_channels(
            requested
        )
        self.offered = sorted(
            offered.values(), key=lambda channel: (channel.is_archived, channel.name)
        )
        field.choices = [(channel.slack_id, str(channel)) for channel in self.offered]

    def clean_since(self) -> int:
        return since_us(self.cleaned_data["since"], self.access.zone)

    def clean_cap(self) -> tuple[int | None, int | None]:
        try:
            return parse_cap(self.cleaned_data["cap"])
        except InvalidInput as error:
            raise forms.ValidationError(
                _("Enter a number of tokens or an amount in dollars.")
            ) from error

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.access.has_channels:
            raise forms.ValidationError(_("You have no access to any channel."))
        self.now = self.access.workspace.synced_until(timezone.now())
        if self.now is None:
            raise forms.ValidationError(_("This workspace was never read completely from Slack."))
        return cleaned

    def estimate(self) -> dict[str, Any]:
        assert self.now is not None
        requested = set(self.cleaned_data["channel"])
        self.channels = [
            c for c in self.access.channels if not requested or c.slack_id in requested
        ]
        since = self.cleaned_data["since"]
        return estimate_backfill(self.access.workspace, self.channels, since, self.now).as_json()

    def start(self, request: UserRequest) -> Backfill | None:
        """Start a backfill. None, with an error on the form, when it cannot start."""
        assert self.now is not None
        estimate = self.estimate()
        cap_tokens, cap_micros = self.cleaned_data["cap"]
        try:
            check_cap(cap_micros)
            return Backfill.objects.start(
                self.access.workspace,
                self.channels,
                since_us=self.cleaned_data["since"],
                until_us=to_micros(self.now),
                estimate=estimate,
                cap_tokens=cap_tokens,
                cap_micros=cap_micros,
                by=request.user,
            )
        except NeedsPrice:
            self.add_error("cap", _("The model has no price. Enter a limit in tokens."))
        except AnotherBackfill:
            self.add_error(None, _("Another backfill of this workspace is running or paused."))
        return None


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """Show the form, and with ``?estimate=1`` its cost. POST starts the backfill."""
    access = open_workspace(request, slug)
    must_administer(access)
    unfinished = Backfill.objects.filter(workspace=access.workspace).unfinished()
    visible = Backfill.objects.visible_to(access.reader)
    if request.method == "GET" and (running := visible.filter(pk__in=unfinished).first()):
        return redirect("backfill-detail", slug, running.pk)
    data = request.POST if request.method == "POST" else request.GET
    is_submitted = request.method == "POST" or "estimate" in data
    form = BackfillForm(data if is_submitted else None, access=access)
    estimate, status = None, 200
    if is_submitted and not form.is_valid():
        status = 422
    elif request.method == "POST":
        if backfill := form.start(request):
            schedule_pass(access.workspace.pk)
            toasts.success(request, _("Backfill started."))
            return redirect("backfill-detail", slug, backfill.pk)
        status = 422
    elif is_submitted:
        estimate = form.estimate()
    if status == 422:
        focus_first_error(form)
    context = {
        "access": access,
        "form": form,
        "estimate": estimate,
        "has_unfinished": unfinished.exists(),
        "chosen": data.getlist("channel"),
        "earlier": visible.filter(workspace=access.workspace)[:10],
    }
    return render_page(request, "generate/backfill/index.html", context, status=status)


@login_required
def detail(request: UserRequest, slug: str, pk: int) -> HttpResponse:
    """Show the progress. The part refreshes until the backfill is finished.

    POST ``do``: ``pause``, ``resume`` (with a new ``cap``), ``cancel``, or ``retry`` its dead jobs.
    """
    access = open_workspace(request, slug)
    must_administer(access)
    backfills = Backfill.objects.visible_to(access.reader).filter(workspace=access.workspace)
    backfill = get_object_or_404(backfills, pk=pk)
    error = ""
    if request.method == "POST":
        error = _change(request, backfill)
        if not error:
            return redirect(request.get_full_path())
    status = 200
    if error:
        status = 422
    elif wants_part(request) and not backfill.is_unfinished:
        status = STOP_POLLING
    context = {
        "access": access,
        "backfill": backfill,
        "estimate": backfill.estimate.get("total"),
        "is_free": backfill.estimate.get("free"),
        "progress": progress_of(backfill, timezone.now()),
        "blocker": access.blocker,  # the part shows it too
        "is_changed": request.GET.get("state", backfill.state) != backfill.state,
        "confirms_cancel": request.GET.get("ask") == "cancel" and backfill.is_unfinished,
        "error": error,
        "live": is_live(request),
    }
    return render_page_or_part(
        request,
        "generate/backfill/detail.html",
        "generate/backfill/_progress.html",
        context,
        status=status,
    )


def _change(request: UserRequest, backfill: Backfill) -> str:
    """Change the backfill, unless its state changed meanwhile. Return an error text, or ""."""
    verb = request.POST.get("do", "")
    if verb == "pause" and backfill.pause(request.user):
        toasts.success(request, _("Paused. No new calls start."))
    elif verb == "cancel" and backfill.cancel(request.user):
        toasts.success(request, _("Cancelled. Finished memories are kept."))
    elif verb == "retry":
        count = job_control.retry_jobs(backfill.jobs.filter(state=Job.State.DEAD), request.user)
        if count:
            schedule_pass(backfill.workspace_id)
            words = ngettext("%(n)s job will be retried.", "%(n)s jobs will be retried.", count)
            toasts.success(request, words % {"n": count})
    elif verb == "resume":
        return _resume(request, backfill)
    return ""


def _resume(request: UserRequest, backfill: Backfill) -> str:
    try:
        tokens, micros = parse_cap(request.POST.get("cap", ""))
        check_cap(micros)
    except InvalidInput:
        return _("Enter a number of tokens or an amount in dollars.")
    except NeedsPrice:
        return _("The model has no price. Enter a limit in tokens.")
    caps = {"cap_tokens": tokens, "cap_micros": micros} if "cap" in request.POST else {}
    if backfill.resume(request.user, **caps):
        schedule_pass(backfill.workspace_id)
        toasts.success(request, _("Resumed."))
    return ""
