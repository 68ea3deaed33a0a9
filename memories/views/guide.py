"""Help: the handful of words that the pages rest on, and where things are."""

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from memories.views.access.access import UserRequest, only_place
from memories.views.pages import render_page


@require_safe
def index(request: UserRequest) -> HttpResponse:
    """For everybody, also before they sign in: it says nothing of anybody's words."""
    return render_page(request, "guide/index.html", {"place": only_place(request)})
