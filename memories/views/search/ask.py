"""The page "Ask": the texts that are most about a question, and a model's answer from them."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.utils import timezone

from memories.pipeline.ask.asking import ask
from memories.pipeline.generate.probing import configured_model
from memories.rules.ask.answer import MAX_QUESTION
from memories.views.access.access import UserRequest, open_workspace
from memories.views.pages import render_page
from memories.views.search.passages import show_passages


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """Show the texts about ``q``. Only a POST calls the model, because a call may cost money."""
    access = open_workspace(request, slug)
    fields = request.POST if request.method == "POST" else request.GET
    question = fields.get("q", "").strip()[:MAX_QUESTION]
    model = configured_model()
    used_model = model if request.method == "POST" else None
    answer = ask(question, access.workspace, access.reader, timezone.now(), used_model)
    shown = show_passages(answer.passages)
    context = {
        "access": access,
        "question": question,
        "passages": shown,
        "sentences": [
            (sentence.text, [shown[ref - 1] for ref in sentence.refs])
            for sentence in answer.sentences or ()
        ],
        "is_answered": answer.sentences is not None,
        "has_failed": answer.has_failed,
        "has_model": model is not None,
    }
    return render_page(request, "search/ask.html", context)
