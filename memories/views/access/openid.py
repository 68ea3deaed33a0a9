"""The way to the provider of a sign-in with Slack or with single sign-on."""

import logging
from typing import Any

from allauth.socialaccount.providers.openid_connect import views
from django.http import HttpRequest
from django.shortcuts import render

logger = logging.getLogger(__name__)


def login(request: HttpRequest, provider_id: str) -> Any:
    """Redirect to the provider, whose address for sign-ins comes from the provider itself.

    503 if it does not respond, or not with its document of discovery.
    """
    try:
        return views.login(request, provider_id)
    except (OSError, LookupError, TypeError, ValueError) as error:  # no answer, or another document
        logger.warning("the provider %s cannot be used: %s", provider_id, type(error).__name__)
        return render(request, "socialaccount/authentication_error.html", status=503)
