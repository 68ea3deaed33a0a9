"""An app that connects to a hub with OAuth, and the browser of the person who connects it."""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.http import HttpResponse
from django.test import Client

CALLBACK = "http://127.0.0.1:7777/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode()
CONSENT = {"action": "grant", "days": "90", "channels": ""}


def hidden_fields(page: str) -> dict[str, str]:
    """The names and values of the hidden fields of a page's form for consent."""
    form = page[page.index('action="/oauth/authorize"') :]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return dict(fields[:3])


@dataclass
class App:
    """Tokens are asked without a session, as a server does it."""

    client_id: str
    http: Client

    @classmethod
    def register(cls, **changes: Any) -> "App":
        http = Client()
        answer = cls.send_registration(http, **changes)
        assert answer.status_code == 201, answer.content
        return cls(answer.json()["client_id"], http)

    @staticmethod
    def send_registration(http: Client, **changes: Any) -> Any:
        metadata = {"client_name": "Claude", "redirect_uris": [CALLBACK]} | changes
        return http.post("/oauth/register", metadata, content_type="application/json")

    def query(self, **changes: str | None) -> str:
        parameters = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "read notes propose",
            "state": "s",
            "code_challenge": CHALLENGE.rstrip("="),
            "code_challenge_method": "S256",
        } | changes
        return urlencode({name: value for name, value in parameters.items() if value is not None})

    def ask(self, browser: Client, **changes: str | None) -> HttpResponse:
        return browser.get(f"/oauth/authorize?{self.query(**changes)}")  # type: ignore[return-value]

    def consent(
        self, browser: Client, given: dict[str, str] | None = None, **changes: str | None
    ) -> HttpResponse:
        page = self.ask(browser, **changes)
        assert page.status_code == 200, page.content
        fields = hidden_fields(page.content.decode())
        return browser.post("/oauth/authorize", fields | CONSENT | (given or {}))  # type: ignore[return-value]

    def code(self, browser: Client, given: dict[str, str] | None = None, **changes: Any) -> str:
        answer = self.consent(browser, given, **changes)
        assert answer.status_code == 302, answer.content
        query = parse_qs(urlsplit(answer["Location"]).query)
        assert query["state"] == ["s"], answer["Location"]
        return query["code"][0]

    def exchange(self, code: str, /, **changes: str) -> Any:
        data = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        return self.http.post("/oauth/token", data | changes)

    def refresh(self, token: str, **changes: str) -> Any:
        data = {
            "grant_type": "refresh_token",
            "client_id": self.client_id,
            "refresh_token": token,
        }
        return self.http.post("/oauth/token", data | changes)

    def connect(self, browser: Client, given: dict[str, str] | None = None, **changes: Any) -> Any:
        """Return the tokens that the person's consent gives."""
        answer = self.exchange(self.code(browser, given, **changes))
        assert answer.status_code == 200, answer.content
        return answer.json()
