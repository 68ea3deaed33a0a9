"""API keys: stored fields, readable texts, and expiry."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memories.api import auth
from memories.api.problems import Problem
from memories.models import AccessGrant, ApiKey, AuditEvent, Member
from memories.pipeline.search import indexing
from tests.factories import NoteFactory, make_workspace_memory

pytestmark = pytest.mark.slow

PUBLIC, PRIVATE = "We launch on Monday", "Tom earns a lot"
WHOLE, NOTE_WORDS = "Everybody ships", "A note for all"


@pytest.fixture
def texts(cast):
    make_workspace_memory(workspace=cast.workspace, texts=[f"- {WHOLE}"])
    NoteFactory(workspace=cast.workspace, content=NOTE_WORDS)
    indexing.index_pending()
    return [PUBLIC, PRIVATE, WHOLE, NOTE_WORDS]


@pytest.mark.parametrize(
    "user, narrowed_to, readable",
    [
        ("", "", [PUBLIC, WHOLE, NOTE_WORDS]),
        ("member", "", [PUBLIC, WHOLE, NOTE_WORDS]),
        ("insider", "", [PUBLIC, PRIVATE, WHOLE, NOTE_WORDS]),
        ("insider", "public", [PUBLIC]),
        ("insider", "private", [PRIVATE]),
        ("member", "private", []),
        ("", "private", []),
        ("guest", "", [PUBLIC]),
        ("outsider", "", []),
        ("operator", "", [PUBLIC, WHOLE, NOTE_WORDS]),
    ],
)
def test_a_key_reads_texts_of_its_account_within_its_channels(
    cast, texts, token, ask, user, narrowed_to, readable
):
    channels = [getattr(cast, narrowed_to)] if narrowed_to else []
    key = token(user, channels=channels)
    context = ask(key, "context?budget=20000").content.decode()
    assert [text for text in texts if text in context] == readable
    hits = ask(key, "search?q=launch").json()["results"]
    assert any(PUBLIC in hit["snippet"] for hit in hits) == (PUBLIC in readable)
    hits = ask(key, "search?q=earns").json()["results"]
    assert any("earns" in hit["snippet"] for hit in hits) == (PRIVATE in readable)
    names = {channel["name"] for channel in ask(key, "channels").json()["items"]}
    assert ("launch" in names, "salaries" in names) == (PUBLIC in readable, PRIVATE in readable)
    memory = ask(key, f"memories/{cast.private_memory.pk}")
    assert memory.status_code == (200 if PRIVATE in readable else 404)


def test_an_access_grant_of_an_operator_does_not_extend_to_keys(cast, token, ask):
    now = timezone.now()
    AccessGrant.objects.open(cast.private, by=cast.users["operator"], reason="an audit", now=now)
    assert ask(token("operator"), "channels/C0PRIVATE").status_code == 404


def test_a_key_loses_access_with_its_account(cast, token, ask):
    key = token("insider")
    assert PRIVATE in ask(key, "context").content.decode()
    cast.private.memberships.all().delete()
    assert PRIVATE not in ask(key, "context").content.decode()
    cast.users["insider"].is_active = False
    cast.users["insider"].save()
    assert ask(key, "context").status_code == 401


@pytest.mark.parametrize("how", ["revoked", "expired", "another secret", "another prefix", "junk"])
def test_a_request_without_a_usable_key_is_refused(cast, token, ask, how):
    key = token("member", expires_at=timezone.now() + timedelta(hours=1))
    row = ApiKey.objects.get()
    if how == "revoked":
        row.revoke(by=None, now=timezone.now())
    elif how == "expired":
        ApiKey.objects.update(expires_at=timezone.now())
    else:
        key = {
            "another secret": key[:-1] + ("a" if key[-1] != "a" else "b"),
            "another prefix": key.replace("mhr", "mhw"),
            "junk": "mhr_\x00_'",
        }[how]
    answer = ask(key, "context")
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"] == "Bearer"


def test_the_token_is_not_stored(cast, token, caplog, ask):
    caplog.set_level("INFO")
    key = token("member")
    ask(key, "search?q=confidential-words")
    row = ApiKey.objects.values().get()
    secret = key.split("_", 2)[2]
    assert secret not in str(row) and secret not in caplog.text
    assert "confidential-words" not in caplog.text and "/api/v1/search" in caplog.text
    assert row["last_used_at"] is not None
    assert AuditEvent.objects.filter(action="api_key_issue").count() == 1


def test_a_key_works_after_the_secret_key_is_rotated(cast, token, ask, settings):
    key = token("member")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]
    assert ask(key, "status").status_code == 200


def test_too_many_requests_in_a_minute_are_refused(cast, token, ask, time_machine):
    time_machine.move_to("2026-11-24T09:00:30Z", tick=False)
    key = token("member", requests_per_minute=2)
    answers = [ask(key, "status") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[1]["RateLimit-Remaining"] == "0"
    assert answers[2]["Retry-After"] == "30"
    time_machine.move_to("2026-11-24T09:01:00Z", tick=False)
    assert ask(key, "status").status_code == 200


def test_uses_on_standard_input_are_counted_and_logged(
    cast, token, caplog, time_machine, monkeypatch
):
    monkeypatch.setattr(auth, "close_old_connections", lambda: None)  # the test's is open
    time_machine.move_to("2026-11-24T09:00:30Z", tick=False)
    caplog.set_level("INFO")
    token("member", requests_per_minute=2)
    row = ApiKey.objects.get()
    auth.usable_key(row.pk)
    assert auth.usable_key(row.pk).last_used_at == timezone.now()
    assert "API key" in caplog.text and "standard input" in caplog.text
    with pytest.raises(Problem, match="2 requests a minute"):
        auth.usable_key(row.pk)
    row.revoke(by=None, now=timezone.now())
    with pytest.raises(Problem, match="revoked"):
        auth.usable_key(row.pk)


def test_the_command_creates_lists_and_revokes_keys(cast, capsys, ask):
    def run(*arguments: str) -> str:
        call_command("api_key", *arguments)
        return capsys.readouterr().out

    assert run("list") == "There is no API key.\n"
    key = run("create", "ci", "--channel", "#launch", "--scope", "notes", "--days", "30").strip()
    assert key.startswith("mhw_") and ask(key, "status").json()["channels"] == 1
    assert "usable\tpublic channels\tnotes read\t#launch" in run("list")
    pk = ApiKey.objects.get().pk
    assert "Revoked" in run("revoke", str(pk))
    assert "revoked" in run("list")
    assert ask(key, "status").status_code == 401
    for wrong in (
        ["create", "x", "--as", "nobody"],
        ["create", "x", "--channel", "no"],
        ["create", "x", "--days", "0"],
        ["create", "x", "--rate", "0"],
        ["revoke", "0"],
    ):
        with pytest.raises(CommandError):
            run(*wrong)


def test_a_member_who_left_reads_nothing(cast, token, ask):
    key = token("editor")
    assert ask(key, "channels").json()["items"]
    Member.objects.filter(user=cast.users["editor"]).delete()
    assert ask(key, "channels").json()["items"] == []
