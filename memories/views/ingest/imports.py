"""Uploads of Slack exports, for operators: their content, the choice of a part, the progress."""

from datetime import UTC, tzinfo
from typing import Any

from django import forms
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_htmx.http import HttpResponseClientRedirect

from memories.forms import focus_first_error
from memories.models import ModelServer, Upload, UploadInProgress, Workspace
from memories.pipeline.ingest import uploads
from memories.pipeline.ingest.uploads import UploadRefused
from memories.tasks import schedule_import
from memories.views.access.access import UserRequest, must_operate
from memories.views.pages import STOP_POLLING, is_live, render_page_or_part, wants_part
from memories.views.periods import since_field, since_us
from memoryhub.env import PROGRAM
from memoryhub.uploads import MAX_BYTES, make_ticket

MAX_LISTED = 20  # earlier uploads on the page


class UploadForm(forms.Form):
    """The form is read in the order it is sent, so the CSRF token comes before the file."""

    slug = forms.SlugField(
        label=gettext_lazy("Into the workspace"),
        max_length=50,
        help_text=gettext_lazy(
            "An existing workspace, or a new short name of lowercase letters, digits, hyphens "
            "and underscores."
        ),
    )
    export = forms.FileField(
        label=gettext_lazy("Slack export"),
        help_text=format_lazy(
            gettext_lazy(
                "The zip file from Slack, at most 1 GB. For a larger file or a folder, use "
                "{program} import_slack on the server."
            ),
            program=PROGRAM,
        ),
        widget=forms.FileInput(attrs={"accept": ".zip"}),
    )

    def __init__(self, request: UserRequest) -> None:
        self.request = request
        if request.method == "POST":
            super().__init__(request.POST, request.FILES)
        else:
            super().__init__(initial={"slug": _likely_slug()})
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BYTES:
            missing = self.fields["export"].error_messages
            missing["required"] = _("This file is too large for an upload.")

    def store(self) -> Upload | None:
        """Store the file, or add the reason why not to the form and return None."""
        file: UploadedFile[bytes] = self.cleaned_data["export"]
        try:
            return uploads.store_upload(
                self.cleaned_data["slug"], file.name or "", file.chunks(), by=self.request.user
            )
        except UploadRefused as error:
            self.add_error("export", str(error))
        except UploadInProgress:
            self.add_error("slug", _("Another import into this workspace has not finished yet."))
        return None


class ChoiceForm(forms.Form):
    """The chosen part of an export. The template renders all fields but ``since``."""

    since = since_field()
    private = forms.BooleanField(required=False)
    direct = forms.BooleanField(required=False)
    summarize = forms.BooleanField(required=False)

    def __init__(self, data: QueryDict | None = None, *, zone: tzinfo) -> None:
        super().__init__(data)
        self.zone = zone
        self.without = data.getlist("without") if data is not None else []

    def clean_since(self) -> int:
        return since_us(self.cleaned_data["since"], self.zone)

    @property
    def choice(self) -> dict[str, Any]:
        """The valid data in the form of `Upload.choice`."""
        return {**self.cleaned_data, "without": self.without}


def _likely_slug() -> str:
    """Return the only workspace's slug, or "default" when there is none, as the command does."""
    slugs = list(Workspace.objects.exclude(slug="demo").values_list("slug", flat=True)[:2])
    return {0: "default", 1: slugs[0] if slugs else ""}.get(len(slugs), "")


@login_required
def index(request: UserRequest) -> HttpResponse:
    """Show the form. POST stores a file and redirects to its upload."""
    must_operate(request)
    form = UploadForm(request)
    status = 200
    if request.method == "POST":
        if form.is_valid() and (upload := form.store()):
            schedule_import(upload.pk)
            path = reverse("imports-detail", args=[upload.pk])
            return HttpResponseClientRedirect(path) if wants_part(request) else redirect(path)
        focus_first_error(form)
        status = 422
    action = f"{reverse('imports-index')}?{urlencode({'ticket': make_ticket()})}"
    context = {"form": form, "action": action, "uploads": Upload.objects.all()[:MAX_LISTED]}
    return render_page_or_part(
        request, "ingest/imports/index.html", "ingest/imports/_upload.html", context, status=status
    )


@login_required
def detail(request: UserRequest, pk: int) -> HttpResponse:
    """Show an upload; the page refreshes its part while a worker processes it.

    POST ``do`` is start, pause, resume, retry or cancel. For start, ``since`` is the first day,
    ``without`` the excluded channels, and ``private`` and ``direct`` include such conversations.
    ``summarize`` makes memories of all imported messages, if there is no model to pay for.
    """
    must_operate(request)
    upload = get_object_or_404(Upload, pk=pk)
    starts = request.POST.get("do") == "start"
    # In the time zone of the page's times.
    form = ChoiceForm(request.POST if starts else None, zone=request.user.zone or UTC)
    if request.method == "POST" and (not starts or form.is_valid()):
        _change(request, upload, form)
        return redirect(_own_path(request, upload))
    status = 422 if starts else 200
    focus_first_error(form)
    workspace = Workspace.objects.filter(slug=upload.slug).first()
    context: dict[str, Any] = {
        "upload": upload,
        "form": form,
        "shares": uploads.channel_progress(upload),
        "left": uploads.seconds_left(upload),
        "is_silent": upload.is_silent(timezone.now()),
        "workspace": workspace if upload.state == Upload.State.DONE else None,
        "is_free": not ModelServer.objects.in_use().model,
        "counts_by_type": _counts_by_type(upload.report),
        "more": _unlisted_broken_files(upload),
        "refusal": uploads.refusal_text(upload),
        "live": is_live(request),
        "here": _own_path(request, upload),
        "asks": request.GET.get("ask") == "cancel" and upload.is_unfinished,
    }
    if wants_part(request) and not upload.is_at_work:
        status = STOP_POLLING
    return render_page_or_part(
        request,
        "ingest/imports/detail.html",
        "ingest/imports/_import.html",
        context,
        status=status,
    )


@transaction.atomic
def _change(request: UserRequest, upload: Upload, form: ChoiceForm) -> None:
    """Carry out ``do``. When the state has changed meanwhile, do nothing: the page shows it."""
    verb, now = request.POST.get("do", ""), timezone.now()
    if verb == "start":
        if upload.start(form.choice, by=request.user, now=now):
            schedule_import(upload.pk)
    elif verb == "pause" and upload.pause(by=request.user, now=now):
        toasts.success(request, _("Paused. Nothing more is stored."))
    elif verb == "resume" and upload.resume(by=request.user, now=now):
        schedule_import(upload.pk)
        toasts.success(request, _("Resumed."))
    elif verb == "retry" and upload.retry(by=request.user, now=now):
        schedule_import(upload.pk)
    elif verb == "cancel" and uploads.cancel_upload(upload, by=request.user, now=now):
        toasts.success(request, _("Cancelled. The file was removed. What was stored is kept."))


def _own_path(request: UserRequest, upload: Upload) -> str:
    """Return the path of the page, for its forms and redirects; keep ``live=off``."""
    path = reverse("imports-detail", args=[upload.pk])
    return path if is_live(request) else f"{path}?live=off"


def _unlisted_broken_files(upload: Upload) -> int:
    """Return the number of broken files beyond the listed ones."""
    if "files" in upload.report:
        return int(upload.report.get("files_count", 0)) - len(upload.report["files"])
    return int(upload.contents.get("broken_count", 0)) - len(upload.contents.get("broken", []))


def _counts_by_type(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return (label, counts) of each type of object in a report."""
    labels = {
        "people": _("people"),
        "channels": _("channels"),
        "messages": _("messages"),
        "files": _("files without messages"),
    }
    return [(label, report[name]) for name, label in labels.items() if name in report]
