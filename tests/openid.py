"""Servers of OpenID Connect with which a test signs in."""

from typing import Any


def openid_apps(url: str, *names: str) -> dict[str, Any]:
    """Return a value for SOCIALACCOUNT_PROVIDERS: an app of each name at the same server."""
    app = {"client_id": "client", "secret": "hush", "settings": {"server_url": url}}
    return {
        "openid_connect": {
            "APPS": [app | {"provider_id": name, "name": name.title()} for name in names]
        }
    }
