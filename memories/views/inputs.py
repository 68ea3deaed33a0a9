"""Input that no database can hold is refused before a view reads it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from memories.rules.ingest.characters import is_storable
from memories.views.pages import refused

View = Callable[..., HttpResponse]


class StorableInput:
    """Middleware: 400 where an address, a cookie or a form holds NUL or half a surrogate pair.

    A view that is exempt from CSRF checks reads the raw body and checks it by itself.
    """

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        texts = [request.path_info, *_texts(request.GET), *_words(request.COOKIES)]
        return self.get_response(request) if all(map(is_storable, texts)) else refused(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        return None if all(map(is_storable, _texts(request.POST))) else refused(request)


def _texts(data: QueryDict) -> Iterator[str]:
    for name, values in data.lists():
        yield name
        yield from (value for value in values if isinstance(value, str))


def _words(pairs: Mapping[str, str]) -> Iterator[str]:
    for name, value in pairs.items():
        yield name
        yield value
