"""The product's addresses, and two bare views: a page with one query of 50 rows, and one for an API key."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from memories.api.auth import KeyAuth
from memories.models import Message


@login_required
def bare(request: HttpRequest) -> HttpResponse:
    newest = Message.objects.select_related("channel", "author").order_by("-pk")[:50]
    return render(request, "bare.html", {"messages": newest})


def bare_api(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", status=200 if KeyAuth()(request) else 401)


urlpatterns = [
    path("bare/", bare),
    path("bare/api/", bare_api),
    path("", include("memoryhub.urls")),
]
