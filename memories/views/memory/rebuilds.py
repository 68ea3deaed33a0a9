"""Rebuild: a proposal of a long-term memory from all of its sources."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _

from memories.pipeline.generate.followups import rebuild_inputs
from memories.pipeline.generate.update_now import rebuild
from memories.rules.memory.identity import MemoryType
from memories.rules.tokens import estimate_tokens
from memories.tasks import schedule_pass
from memories.views.access.access import UserRequest, must_edit, open_memory
from memories.views.pages import render_page
from memories.views.paths import card_path


@login_required
def detail(request: UserRequest, pk: int) -> HttpResponse:
    """GET shows the size of the sources. POST requests a rebuild and shows its job. For editors."""
    access, memory = open_memory(request, pk)
    if memory.memory_type != MemoryType.LONG_TERM or memory.current is None:
        raise Http404
    must_edit(access)
    if request.method != "POST":
        texts = list(rebuild_inputs(memory).values_list("content", flat=True))
        context = {
            "access": access,
            "memory": memory,
            "texts": len(texts),
            "tokens": sum(map(estimate_tokens, texts)),
        }
        return render_page(request, "memory/rebuilds/detail.html", context)
    job = rebuild(memory, request.user, timezone.now())
    if job is None:
        toasts.info(request, _("There are no texts to rebuild it from."))
        return redirect(card_path(memory))
    schedule_pass(access.workspace.pk)
    return redirect("jobs-detail", access.workspace.slug, job.pk)
