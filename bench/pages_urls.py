"""The product's addresses, and a bare page: one query, 50 rows, a small template of its own."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from memories.models import Message


@login_required
def bare(request: HttpRequest) -> HttpResponse:
    newest = Message.objects.select_related("channel", "author").order_by("-pk")[:50]
    return render(request, "bare.html", {"messages": newest})


urlpatterns = [path("bare/", bare), path("", include("memoryhub.urls"))]
