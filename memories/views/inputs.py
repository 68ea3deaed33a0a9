"""Refuse input that a database cannot store."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from django.db import DataError
from django.http import HttpRequest, HttpResponse, QueryDict

from memories.rules.ingest.characters import is_charset, is_storable
from memories.views.pages import bad_request

View = Callable[..., HttpResponse]
_HUGE = re.compile(r"\d{19}")  # digits of a number that may exceed an integer column


class StorableInput:
    """Middleware: respond 400 to NUL or half a surrogate pair in a URL, a cookie or a form.

    The same goes for a number that a database refused, such as the key of a choice, and for a charset
    that decodes no form.
    A view that is exempt from CSRF checks reads the raw body, and checks it itself.
    """

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_charset((request.content_params or {}).get("charset", "utf-8")):
            return bad_request(request)
        texts = [
            request.path_info,
            *_texts(request.GET),
            *chain.from_iterable(request.COOKIES.items()),
        ]
        return self.get_response(request) if all(map(is_storable, texts)) else bad_request(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        return None if is_storable_form(request) else bad_request(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OverflowError | DataError):
            return None
        texts = chain(_texts(request.GET), _texts(request.POST))
        return bad_request(request) if any(map(_HUGE.search, texts)) else None


def is_storable_form(request: HttpRequest) -> bool:
    """Whether a database can store the texts of the form, for views that are exempt from CSRF checks."""
    return all(map(is_storable, _texts(request.POST)))


def _texts(data: QueryDict) -> Iterator[str]:
    for name, values in data.lists():
        yield name
        yield from (value for value in values if isinstance(value, str))
