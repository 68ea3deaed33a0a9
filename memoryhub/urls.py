"""URLs: health checks, sign-in, admin, API, and the pages at the root."""

from allauth.account import views as account
from allauth.account.decorators import secure_admin_login
from allauth.socialaccount import views as social
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.contrib import admin
from django.urls import include, path
from django.views.decorators.http import require_POST
from django.views.generic import RedirectView

from memories.api.mcp_view import mcp
from memories.api.routes import api
from memories.views.access import openid, preferences, setup
from memoryhub import health, metrics

# One sign-in page, with its limits, also for the admin.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
# The same for the password: one page that limits attempts and ends keys.
admin.site.password_change = RedirectView.as_view(  # type: ignore[assignment,method-assign]
    pattern_name="account_change_password"
)
sign_out = require_POST(account.logout)  # a link must not sign anybody out
sign_in = setup.first(account.login)

handler400 = "memories.views.pages.bad_request"
handler500 = "memories.views.pages.server_error"
urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("i18n/setlang/", preferences.set_language, name="set_language"),
    # allauth uses names of its own.
    path("login/", sign_in, name="account_login"),
    path("login/", sign_in, name="login"),
    path("login/again/", account.reauthenticate, name="account_reauthenticate"),
    path("password/", account.password_change, name="account_change_password"),
    path("password/new/", account.password_set, name="account_set_password"),
    path("factors/", include("allauth.mfa.urls")),
    path("login/off/", account.account_inactive, name="account_inactive"),
    path("logout/", sign_out, name="account_logout"),
    path("logout/", sign_out, name="logout"),
    path("login/<slug:provider_id>/", openid.login, name="openid_connect_login"),
    path(
        "login/<slug:provider_id>/callback/",
        openid_connect.callback,
        name="openid_connect_callback",
    ),
    path("login/failed", social.login_error, name="socialaccount_login_error"),
    path("login/cancelled", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("api/v1/", api.urls),
    path("mcp", mcp, name="mcp"),
    path("", include("memories.urls")),
]
