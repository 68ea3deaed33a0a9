"""One-time codes (RFC 6238) as an authenticator app makes them, and a login in two steps."""

import base64
import hashlib
import hmac
import re
import struct
import time
from typing import Any

from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.test import Client

from memories.models import User
from tests.factories import PASSWORD

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def code_of(secret: str = SECRET) -> str:
    """Return the current code of an authenticator app."""
    counter = struct.pack(">Q", int(time.time()) // 30)
    mac = hmac.new(base64.b32decode(secret), counter, hashlib.sha1).digest()
    start = mac[-1] & 15
    number = struct.unpack(">I", mac[start : start + 4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06d}"


def give_factor(user: User) -> list[str]:
    """An app in use, as if set up on its page; returns the recovery codes."""
    TOTP.activate(user, SECRET)
    return list(RecoveryCodes.activate(user).get_unused_codes())


def password(client: Client, user: User, **more: str) -> Any:
    return client.post("/login/", {"username": user.username, "password": PASSWORD, **more})


def code(client: Client, given: str) -> Any:
    return client.post("/factors/authenticate/", {"code": given})


def set_up(client: Client) -> tuple[str, list[str]]:
    """Through the pages, as who is signed in: the app's key and the recovery codes."""
    response = client.get("/factors/totp/activate/")
    assert response["Location"] == "/login/again/?next=%2Ffactors%2Ftotp%2Factivate%2F"
    again = client.post(
        response["Location"], {"password": PASSWORD, "next": "/factors/totp/activate/"}
    )
    page = client.get(again["Location"]).content.decode()
    secret = re.findall(r'<code class="wrap">(\w+)</code>', page)[0]
    done = client.post("/factors/totp/activate/", {"code": code_of(secret)})
    assert done["Location"] == "/factors/recovery-codes/", done.content.decode()
    shown = client.get(done["Location"]).content.decode()
    return secret, re.findall(r"<li><code>(\d+)</code></li>", shown)
