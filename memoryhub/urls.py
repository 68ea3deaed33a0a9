"""Addresses: health, login, admin, and the pages of memories at the root."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from memoryhub import health

urlpatterns = [
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("", include("memories.urls")),
]
