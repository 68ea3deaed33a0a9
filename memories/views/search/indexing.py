"""Middleware that indexes the texts of a posted form."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from memories.pipeline.search.indexing import index_pending_or_defer

AT_ONCE = 100  # texts; tasks index the texts of an import


def index_after_post(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Index pending texts after each POST of a signed-in user."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method == "POST" and request.user.is_authenticated:
            index_pending_or_defer(most=AT_ONCE)
        return response

    return middleware
