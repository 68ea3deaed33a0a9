"""The settings of a workspace (rule 9), for its admins."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from memories.forms import SettingsForm
from memories.views.access import UserRequest, must_administer, open_workspace
from memories.views.pages import render_page


@login_required
def edit(request: UserRequest, slug: str) -> HttpResponse:
    place = open_workspace(request, slug)
    must_administer(place)
    if request.method != "POST":
        form = SettingsForm(workspace=place.workspace)
        return render_page(request, "settings/edit.html", {"place": place, "form": form})
    form = SettingsForm(request.POST, workspace=place.workspace)
    if not form.is_valid():
        context = {"place": place, "form": form}
        return render_page(request, "settings/edit.html", context, status=422)
    changed = form.save(by=request.user)
    toasts.success(request, _("Settings saved.") if changed else _("Nothing was different."))
    return redirect("settings-edit", slug)
