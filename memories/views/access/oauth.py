"""OAuth for web clients of MCP: metadata, registration, consent and tokens.

allauth's identity provider issues and stores the tokens. Its views are narrowed to public clients with
PKCE (S256), exact redirect addresses and tokens for this hub. An operator switches them on with
MEMORYHUB_OAUTH, else each of these addresses responds 404.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from allauth.idp.oidc import views as provider
from allauth.idp.oidc.models import Client, Token
from django import forms
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from memories.api_key_form import ApiKeyForm
from memories.models import ApiKey, Reader
from memories.models.access.audience import entered_workspaces
from memories.rules.access.oauth import origin_of
from memories.rules.ingest.characters import make_storable
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.references import load_object
from memories.rules.json_values import as_list, as_text
from memories.views.access.access import WorkspaceAccess, open_workspace
from memories.views.inputs import is_storable_form
from memories.views.pages import bad_request
from memories.views.paths import full_url

SCOPES = list(ApiKey.Scope.values)
_CODE = re.compile(r"[\w-]{0,100}", re.ASCII)
GRANTS = ["authorization_code", "refresh_token"]
MAX_ADDRESSES = 10  # of an app
UNUSED_FOR = timedelta(days=7)  # until an app that nobody connected is deleted

View = Callable[..., HttpResponseBase]


def if_switched_on(view: View) -> View:
    """Decorate a view that responds 404 without MEMORYHUB_OAUTH, and 400 to a NUL in its form."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.MEMORYHUB_OAUTH:
            raise Http404
        if not is_storable_form(request):
            return bad_request(request)
        return view(request, *args, **kwargs)

    return checked


def _public_json(data: dict[str, Any]) -> JsonResponse:
    response = JsonResponse(data)
    response["Access-Control-Allow-Origin"] = "*"
    return response


@if_switched_on
@require_safe
def server(request: HttpRequest) -> JsonResponse:
    """Describe the authorization server (RFC 8414)."""
    return _public_json(
        {
            "issuer": settings.MEMORYHUB_URL,
            "authorization_endpoint": full_url(reverse("oauth-authorize")),
            "token_endpoint": full_url(reverse("oauth-token")),
            "revocation_endpoint": full_url(reverse("oauth-revoke")),
            "registration_endpoint": full_url(reverse("oauth-register")),
            "scopes_supported": SCOPES,
            "response_types_supported": ["code"],
            "grant_types_supported": GRANTS,
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
        }
    )


@if_switched_on
@require_safe
def resource(request: HttpRequest, path: str = "") -> JsonResponse:
    """Describe what the tokens are for (RFC 9728): the hub, or its MCP alone."""
    return _public_json(
        {
            "resource": full_url(path),
            "resource_name": "Memory Hub",
            "authorization_servers": [settings.MEMORYHUB_URL],
            "scopes_supported": SCOPES,
            "bearer_methods_supported": ["header"],
        }
    )


class Register(provider.ClientRegistrationView):  # type: ignore[misc]
    """Register an app (RFC 7591). Whatever it asks for, it becomes a public client for codes."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        # Before the form is checked: to make a client takes long.
        self._counted = super()._ratelimit()
        if self._counted[1] is not None:
            return self._counted[1]
        unused = Client.objects.filter(api_keys=None, created_at__lt=timezone.now() - UNUSED_FOR)
        unused.delete()
        return super().post(request, *args, **kwargs)

    def _ratelimit(self) -> Any:
        return self._counted

    def _get_client_metadata(self) -> dict[str, Any] | None:
        if self.request.content_type != "application/json":
            return None  # the body of a form was read as such
        metadata = load_object(self.request.body.decode(errors="replace"))
        name = safe_name(make_storable(as_text(metadata.get("client_name"))))
        addresses = [uri for uri in as_list(metadata.get("redirect_uris")) if as_text(uri)]
        return {
            "client_name": name or "MCP",
            "redirect_uris": addresses[:MAX_ADDRESSES],
            "grant_types": GRANTS,
            "response_types": ["code"],
            "scope": " ".join(SCOPES),
            "token_endpoint_auth_method": "none",
        }


class ConsentForm(ApiKeyForm):
    """The limits of the key that an app gets. It always reads; more needs a tick."""

    request = forms.CharField(widget=forms.HiddenInput)
    workspace = forms.SlugField(widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, access: WorkspaceAccess, requested_scopes: list[str], **kwargs: Any
    ) -> None:
        kwargs.pop("user")
        super().__init__(*args, workspace=access.workspace, reader=access.reader, **kwargs)
        self.initial["workspace"] = access.workspace.slug
        unrequested = {ApiKey.Scope.NOTES, ApiKey.Scope.PROPOSE} - set(requested_scopes)
        for name in ("name", "is_public", "requests_per_minute", *unrequested):
            self.fields.pop(name, None)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            cleaned["scopes"] = self.limits()["scopes"]  # allauth puts them into the code
        return cleaned


class Authorize(provider.AuthorizationView):  # type: ignore[misc]
    """The consent page. Consent gives the app a key of the person, and sends it a code for tokens."""

    form_class = ConsentForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not request.POST.get("request"):
            raise BadRequest("The form was not sent by the consent page.")
        return super().post(request, *args, **kwargs)

    def get_form_kwargs(self) -> Any:
        self._check_request()
        self._access = self._open_workspace()
        return super().get_form_kwargs() | {"access": self._access}

    def _check_request(self) -> None:
        """Raise BadRequest for what allauth lets pass."""
        info = self._request_info
        self._client = get_object_or_404(Client, pk=info["client_id"])
        if info["redirect_uri"] not in self._client.get_redirect_uris():
            raise BadRequest("The redirect address is not exactly a registered one.")
        if info.get("code_challenge_method") != "S256":
            raise BadRequest("PKCE with S256 is required.")
        if ApiKey.Scope.READ not in self._scopes:
            raise BadRequest("An app cannot do without the scope read.")
        info["resources"] = info.get("resources") or [settings.MEMORYHUB_URL]

    def _open_workspace(self) -> WorkspaceAccess:
        """Open the chosen workspace, else the first one. Raises PermissionDenied without any."""
        slug = self.request.POST.get("workspace") or self.request.GET.get("workspace")
        workspaces = entered_workspaces(Reader.of(self.request.user)).order_by("name", "pk")
        self._workspaces = list(workspaces)
        if not self._workspaces:
            raise PermissionDenied
        return open_workspace(self.request, slug or self._workspaces[0].slug)

    def get_context_data(self, **kwargs: Any) -> Any:
        context = super().get_context_data(**kwargs)  # makes the form, which opens the workspace
        query = self.request.GET.copy()
        query.pop("workspace", None)
        more = [row for row in self._workspaces if row != self._access.workspace]
        return context | {
            "access": self._access,
            "origin": origin_of(self._request_info["redirect_uri"]),
            "more_workspaces": more if self.request.method == "GET" else [],
            "query": query.urlencode(),
        }

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> Any:
        status = 422 if context["form"].errors else 200
        response = super().render_to_response(context, status=status, **kwargs)
        # Browsers apply this to the redirect after the form, too.
        response._csp_update = {"form-action": context["origin"]}
        return response

    def form_valid(self, form: ConsentForm) -> Any:
        with transaction.atomic():
            ApiKey.objects.connect(
                self._client,
                self.request.user,
                self._access.workspace,
                now=self._access.now,
                **form.limits(),
            )
            return super().form_valid(form)


def _refuse_secret(request: HttpRequest) -> HttpResponse | None:
    """Respond 401 to a client with a secret. No client has one, and to check it takes long."""
    if "Authorization" in request.headers or request.POST.get("client_secret"):
        return JsonResponse({"error": "invalid_client"}, status=401)
    return None


class IssueToken(provider.TokenView):  # type: ignore[misc]
    """Exchange a code or a refresh token for an access token. Each of them works once."""

    def post(self, request: HttpRequest) -> Any:
        if refusal := _refuse_secret(request):
            return refusal
        if not _CODE.fullmatch(request.POST.get("code", "")):  # allauth makes it a key of the cache
            return JsonResponse({"error": "invalid_grant"}, status=400)
        with transaction.atomic():
            # A second request with the same code waits for the first one.
            Client.objects.select_for_update().filter(pk=request.POST.get("client_id", "")).first()
            Token.objects.expired().delete()
            refresh = Token.objects.lookup(
                Token.Type.REFRESH_TOKEN, request.POST.get("refresh_token", "")
            )
            if refresh and not ApiKey.objects.usable_for(refresh, timezone.now()).exists():
                refresh.delete()
            try:
                return super().post(request)
            except ValidationError as error:
                answer = {"error": "invalid_target", "error_description": error.message}
                return JsonResponse(answer, status=400)


class RevokeToken(provider.RevokeView):  # type: ignore[misc]
    """Delete a token (RFC 7009). A refresh token ends the whole connection of the app."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if refusal := _refuse_secret(request):
            return refusal
        now = timezone.now()
        refresh = Token.objects.lookup(Token.Type.REFRESH_TOKEN, request.POST.get("token", ""))
        response = super().post(request, *args, **kwargs)
        if refresh and not Token.objects.filter(pk=refresh.pk).exists():
            ApiKey.objects.usable_for(refresh, now).revoke(by=refresh.user, now=now)
        return response


register = if_switched_on(Register.as_view())
authorize = if_switched_on(Authorize.as_view())
token = if_switched_on(IssueToken.as_view())
revoke = if_switched_on(RevokeToken.as_view())
