"""What is written on a page is found from the next one on."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from memories.pipeline.search.indexing import catch_up_or_wait

AT_ONCE = 100  # texts: nobody waits for an import


def index_after_post(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: a form was sent by somebody signed in, and what it changed goes into the index."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method == "POST" and request.user.is_authenticated:
            catch_up_or_wait(most=AT_ONCE)
        return response

    return answer
