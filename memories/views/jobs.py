"""Jobs, as far as pages let people act on them."""

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from memories.pipeline import operate
from memories.views.access import UserRequest, must_administer, open_workspace


@login_required
@require_POST
def resume(request: UserRequest, slug: str) -> HttpResponse:
    """An admin's word that the model may be called again; then back to the page of the banner."""
    place = open_workspace(request, slug)
    must_administer(place)
    if operate.resume(request.user, timezone.now()):
        toasts.success(request, _("The model is called again; what waited goes on by itself."))
    else:
        toasts.info(request, _("Nothing held the calls back any more."))
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(
        target, {request.get_host()}, require_https=request.is_secure()
    ):
        return redirect(target)
    return redirect("workspaces-detail", slug)
