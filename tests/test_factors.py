"""The second factor of a login: required, checked, used once, encrypted and recorded."""

import json
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from memories.models import AuditEvent, User
from memories.pipeline.transfer.backup import LEFT_OUT, back_up, restore
from memories.rules.safety.encryption import decrypt, new_key
from tests.factories import PASSWORD, MemberFactory, UserFactory, WorkspaceFactory
from tests.leaks.probes import overhearing, records
from tests.secondfactors import SECRET, code, code_of, give_factor, password, set_up

pytestmark = pytest.mark.django_db

SECOND = "/factors/authenticate/"


@pytest.fixture
def clock() -> Iterator[Any]:
    """No half minute ends in the middle of a test."""
    with time_machine.travel(time.time(), tick=False) as traveller:
        yield traveller


@pytest.fixture
def alice(db: None) -> User:
    user: User = UserFactory(username="alice")
    return user


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def recorded(action: str) -> list[tuple[str, str, Any]]:
    rows = AuditEvent.objects.filter(action=action).order_by("pk")
    return [(event.actor, event.subject, event.details.get("kind")) for event in rows]


def test_a_factor_is_set_up_required_and_removed(
    clock: Any, client: Client, alice: User, django_capture_on_commit_callbacks: Any
) -> None:
    """By the pages alone; nothing of it in logs, in the record or readable in the database."""
    with overhearing() as heard:
        password(client, alice)
        with django_capture_on_commit_callbacks(execute=True):
            secret, codes = set_up(client)
        assert len(set(codes)) == 10
        client.post("/logout/")
        assert password(client, alice)["Location"] == SECOND
        assert not is_in(client) and client.get("/settings/").status_code == 302
        wrong = code(client, "000000" if code_of(secret) != "000000" else "111111")
        assert "This code is not correct" in wrong.content.decode() and not is_in(client)
        assert code(client, code_of(secret))["Location"] == "/" and is_in(client)

        kept = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
        lines = "\n".join([kept, *heard.lines, records()])
        assert not [word for word in (secret, *codes) if word in lines]

        client.post("/login/again/", {"password": PASSWORD})
        client.post("/factors/totp/deactivate/")
        assert not Authenticator.objects.exists()
    assert recorded("factor_added") == [
        ("alice", "alice", "totp"),
        ("alice", "alice", "recovery_codes"),
    ]
    assert recorded("factor_failed") == [("", "alice", "totp")]
    assert {kind for _, _, kind in recorded("factor_removed")} == {"totp", "recovery_codes"}
    assert AuditEvent.objects.filter(action="login").count() == 2


def test_a_code_works_once(clock: Any, client: Client, alice: User) -> None:
    give_factor(alice)
    used = code_of()
    password(client, alice)
    code(client, used)
    assert is_in(client)
    client.post("/logout/")
    password(client, alice)
    code(client, used)
    assert not is_in(client)
    clock.shift(30)
    code(client, code_of())
    assert is_in(client)


def test_a_recovery_code_works_once(client: Client, alice: User) -> None:
    spare = give_factor(alice)[3]
    password(client, alice)
    code(client, spare)
    assert is_in(client)
    client.post("/logout/")
    password(client, alice)
    code(client, spare)
    assert not is_in(client)


def test_too_many_guesses_have_to_wait(clock: Any, client: Client, alice: User) -> None:
    give_factor(alice)
    password(client, alice)
    right = code_of()
    for n in range(5):
        code(client, f"{(int(right) + 1 + n) % 1_000_000:06d}")
    assert "Too many attempts" in code(client, right).content.decode() and not is_in(client)


def guess(user: User, address: str, times: int) -> Any:
    """Guess codes with the right password, and return the last response."""
    stranger = Client(REMOTE_ADDR=address)
    password(stranger, user)
    return [code(stranger, f"{n:06d}") for n in range(times)][-1]


@pytest.mark.slow
def test_guesses_from_another_address_lock_no_one_out(
    clock: Any, client: Client, alice: User
) -> None:
    owner, new = Client(), client
    password(owner, alice)
    owner.post("/logout/")
    give_factor(alice)
    assert "Too many attempts" in guess(alice, "192.0.2.1", 6).content.decode()
    password(new, alice)
    code(new, code_of())
    assert is_in(new)
    clock.shift(30)
    for n in range(2, 5):  # all unknown devices wait now, but not the known one
        guess(alice, f"192.0.2.{n}", 5)
    assert "Too many attempts" in guess(alice, "192.0.2.9", 1).content.decode()
    password(owner, alice)
    code(owner, code_of())
    assert is_in(owner)


def test_the_admin_is_behind_it_too(clock: Any, client: Client) -> None:
    boss = UserFactory(username="boss", is_staff=True, is_superuser=True)
    give_factor(boss)
    assert client.get("/admin/login/?next=/admin/")["Location"] == "/login/?next=%2Fadmin%2F"
    posted = client.post("/admin/login/", {"username": "boss", "password": PASSWORD})
    assert posted.status_code == 302 and not is_in(client)
    assert password(client, boss, next="/admin/")["Location"] == SECOND
    assert client.get("/admin/").status_code == 302
    assert code(client, code_of())["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_the_admin_does_not_show_factors() -> None:
    assert Authenticator not in admin.site._registry


def test_sign_in_fails_without_the_encryption_keys(
    clock: Any, client: Client, alice: User, settings: Settings
) -> None:
    spare = give_factor(alice)[0]
    row = Authenticator.objects.get(type="totp")
    assert decrypt(row.data["secret"], settings.MEMORYHUB_KEYS) == SECRET
    settings.MEMORYHUB_KEYS = [new_key()]
    password(client, alice)
    for given in (code_of(), spare, "", code_of("A" * 8)):
        answer = code(client, given)
        assert answer.status_code == 200 and not is_in(client)
    assert "does not have the key" in code(client, code_of()).content.decode()


def test_new_keys(
    clock: Any,
    client: Client,
    alice: User,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spare = give_factor(alice)[0]
    newer = new_key()
    settings.MEMORYHUB_KEYS = [newer, *settings.MEMORYHUB_KEYS]
    for output in ("2 encrypted again, 0 already", "0 encrypted again, 2 already"):
        call_command("rotate_keys")
        assert capsys.readouterr().out.startswith(output)
    settings.MEMORYHUB_KEYS = [newer]
    password(client, alice)
    code(client, spare)
    assert is_in(client)
    settings.MEMORYHUB_KEYS = [new_key()]
    with pytest.raises(CommandError, match="second factor of alice"):
        call_command("rotate_keys")


def test_an_operator_resets_the_factors_of_an_account(
    client: Client, alice: User, capsys: pytest.CaptureFixture[str]
) -> None:
    give_factor(alice)
    give_factor(UserFactory())
    call_command("mfa_reset", "alice")
    assert capsys.readouterr().out == "Removed of alice: recovery_codes, totp.\n"
    assert Authenticator.objects.exclude(user=alice).count() == 2
    event = AuditEvent.objects.get(action="factors_reset")
    assert (event.actor, event.subject) == ("", "alice")
    call_command("mfa_reset", "alice")
    assert "Nothing was changed" in capsys.readouterr().out
    password(client, alice)
    assert is_in(client)
    with pytest.raises(CommandError, match="There is no account 'bob'"):
        call_command("mfa_reset", "bob")


def test_changing_factors_needs_a_fresh_sign_in(client: Client, alice: User) -> None:
    give_factor(alice)
    own = Authenticator.objects.create(
        user=alice, type="webauthn", data={"name": "mine", "credential": {}}
    )
    client.force_login(alice)
    for path in (
        "totp/deactivate/",
        "recovery-codes/",
        "recovery-codes/generate/",
        "recovery-codes/download/",
        "webauthn/add/",
        f"webauthn/keys/{own.pk}/remove/",
        f"webauthn/keys/{own.pk}/edit/",
    ):
        for answer in (client.get(f"/factors/{path}"), client.post(f"/factors/{path}")):
            if answer.status_code != 405:
                assert answer["Location"].startswith("/login/again/"), path
    assert Authenticator.objects.filter(user=alice).count() == 3


def test_the_key_of_another_account_is_404(client: Client, alice: User) -> None:
    theirs = Authenticator.objects.create(
        user=UserFactory(), type="webauthn", data={"name": "theirs", "credential": {}}
    )
    client.force_login(alice)
    client.post("/login/again/", {"password": PASSWORD})
    for what in ("remove", "edit"):
        assert client.post(f"/factors/webauthn/keys/{theirs.pk}/{what}/").status_code == 404
    assert "theirs" not in client.get("/factors/webauthn/").content.decode()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_pages_are_ours_and_have_nothing_inline(
    client: Client, alice: User, language: str
) -> None:
    client.cookies["django_language"] = language
    client.force_login(alice)
    client.post("/login/again/", {"password": PASSWORD})
    shown = [client.get("/factors/totp/activate/")]
    give_factor(alice)
    paths = ["", "totp/deactivate/", "recovery-codes/", "recovery-codes/generate/"]
    paths += ["webauthn/", "webauthn/add/", "reauthenticate/"]
    shown += [client.get(f"/factors/{path}") for path in paths]
    shown.append(client.get("/login/again/"))
    client.post("/logout/")
    password(client, alice)
    shown.append(client.get(SECOND))
    for answer in shown:
        page = answer.content.decode()
        assert answer.status_code == 200
        assert "Memory Hub" in page and f'<html lang="{language}"' in page
        assert " style=" not in page and "<style" not in page and " onclick=" not in page
        for script in re.findall(r"<script[^>]*>", page):
            assert "src=" in script or 'type="application/json"' in script
        assert "unsafe" not in answer["Content-Security-Policy"]


def test_an_export_leaves_them_out(alice: User, tmp_path: Path) -> None:
    workspace = WorkspaceFactory(slug="team")
    MemberFactory(workspace=workspace, user=alice, role="admin")
    give_factor(alice)
    kept = [
        word
        for data in Authenticator.objects.values_list("data", flat=True)
        for word in data.values()
    ]
    path = tmp_path / "team.zip"
    call_command("export", "--workspace", "team", "--as", "alice", str(path))
    with zipfile.ZipFile(path) as file:
        content = b"".join(file.read(name) for name in file.namelist()).decode()
    assert "alice" in content
    assert not [word for word in kept if isinstance(word, str) and word in content]
    assert "totp" not in content and "recovery_codes" not in content


@pytest.mark.django_db(transaction=True)
def test_a_backup_keeps_them(client: Client, tmp_path: Path) -> None:
    alice = UserFactory(username="alice")
    spare = give_factor(alice)[0]
    path = tmp_path / "today.zip"
    back_up(path, timezone.now())
    assert "mfa_authenticator" not in LEFT_OUT
    Authenticator.objects.all().delete()
    restore(path, timezone.now(), replace=True)
    assert Authenticator.objects.count() == 2
    password(client, alice)
    code(client, spare)
    assert is_in(client)
