"""What allauth's identity provider accepts from apps that connect with OAuth."""

from typing import Any

from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from allauth.idp.oidc.models import Client
from django.conf import settings
from django.core.exceptions import ValidationError

from memories.rules.access.oauth import is_redirect_allowed


class Adapter(DefaultOIDCAdapter):  # type: ignore[misc]
    """Accept apps of known hosts, and tokens for this hub."""

    def validate_client_registration(self, *, client: Client, **kwargs: Any) -> None:
        """Raises ValidationError for an address on a host that MEMORYHUB_OAUTH_HOSTS lacks."""
        for uri in client.get_redirect_uris():
            if not is_redirect_allowed(uri, settings.MEMORYHUB_OAUTH_HOSTS):
                raise ValidationError(
                    "redirect_uris must be https addresses of hosts in MEMORYHUB_OAUTH_HOSTS, or"
                    " http addresses of this machine."
                )

    def validate_resource_uris(self, *, uris: list[str], **kwargs: Any) -> None:
        """Raises ValidationError for another resource than this hub."""
        hub = settings.MEMORYHUB_URL
        if not {uri.rstrip("/") for uri in uris} <= {hub, f"{hub}/mcp"}:
            raise ValidationError("The resource is not this hub.")
