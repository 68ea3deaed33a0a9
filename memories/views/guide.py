"""The help page: the terms of the pages, and links to them."""

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from memories.views.access.access import UserRequest, find_only_workspace
from memories.views.pages import render_page


@require_safe
def index(request: UserRequest) -> HttpResponse:
    """Show the page, also before sign-in. It contains no private text."""
    return render_page(request, "guide/index.html", {"access": find_only_workspace(request)})
