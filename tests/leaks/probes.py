"""The matrix: what each role can ask for, page by page, and what comes back as text.

Whoever adds an address, a model of the admin or a command says here how it is asked: without an
entry `tests/test_leaks.py` fails.
"""

import io
import logging
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from allauth.idp.oidc.models import Client as OAuthClient
from allauth.idp.oidc.models import Token
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client, override_settings
from django.urls import get_resolver, reverse
from django.utils import timezone

from memories.models import (
    ApiKey,
    AuditEvent,
    Backfill,
    Channel,
    EarlierWording,
    Job,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NoteVersion,
    Person,
    Proposal,
    QuarantinedLine,
    Upload,
    Workspace,
)
from memories.pipeline.memory import proposals
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.lines import hash_text
from memories.rules.slack_app.payloads import AppRequest
from tests.leaks.slack import see, slack_asks
from tests.leaks.world import ROLES, WORD, World, word

TYPED = "zqxj"  # how every word begins; the search finds no shorter one
APP = "http://localhost/callback"
switched_on = override_settings(MEMORYHUB_OAUTH=True)


@dataclass(frozen=True)
class Probe:
    """A request of one role. ``data`` None: GET."""

    role: str
    what: str
    ask: Callable[["Eyes"], str]


class Eyes:
    """A browser for each role, signed in."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clients = {role: self._client(role) for role in ROLES}
        self.clients["anonymous"] = Client(SERVER_NAME="localhost")
        self.of_keys = Client(SERVER_NAME="localhost")
        self.tokens = {role: self._token(role) for role in ROLES}
        for slug in _slugs(world):
            client = OAuthClient(pk=slug, name="app", type="public", redirect_uris=APP)
            client.set_scopes(list(ApiKey.Scope.values))
            client.save()
        self.access_tokens = {role: self._access_tokens(role) for role in ROLES}

    def _access_tokens(self, role: str) -> dict[str, str]:
        """An access token of an app that the role's account connected to each workspace."""
        user, tokens = self.world.users[role], {}
        for workspace in Workspace.objects.filter(slug__in=_slugs(self.world)):
            client = OAuthClient.objects.get(pk=workspace.slug)
            key = ApiKey.objects.connect(
                client, user, workspace, scopes=list(ApiKey.Scope), now=timezone.now()
            )
            ApiKey.objects.filter(pk=key.pk).update(requests_per_minute=10**6)
            row = Token(type=Token.Type.ACCESS_TOKEN, client=client, user=user)
            tokens[workspace.slug] = f"access-{role}-{workspace.slug}"
            row.set_value(tokens[workspace.slug])
            row.set_scopes(list(ApiKey.Scope.values))
            row.set_resources([settings.MEMORYHUB_URL])
            row.save()
        return tokens

    def _token(self, role: str) -> dict[str, str]:
        """A key of the role's account for each workspace."""
        return {
            workspace.slug: ApiKey.objects.issue(
                workspace,
                name=role,
                by=None,
                user=self.world.users[role],
                scopes=list(ApiKey.Scope),
                requests_per_minute=10**6,
            )[1]
            for workspace in Workspace.objects.filter(slug__in=_slugs(self.world))
        }

    def api(
        self, role: str, slug: str, path: str, data: dict[str, Any] | None, *, app: bool = False
    ) -> str:
        """The answer to the key or the app of a role; what it would do is undone."""
        client = self.of_keys
        tokens = self.access_tokens if app else self.tokens
        headers = {
            "Authorization": f"Bearer {tokens[role][slug]}",
            "Accept": "application/json, text/event-stream",
            "Host": "localhost",  # MCP answers nobody without it
        }
        with transaction.atomic(), switched_on:
            if data is None:
                answer = client.get(path, headers=headers)
            else:
                answer = client.post(path, data, "application/json", headers=headers)
            transaction.set_rollback(True)
        return check_answer(answer)

    def _client(self, role: str) -> Client:
        client = Client(SERVER_NAME="localhost", raise_request_exception=True)
        client.force_login(self.world.users[role])
        return client

    def get(self, role: str, path: str, *, part: bool = False) -> str:
        headers = {"HX-Request": "true"} if part else {}
        with switched_on:
            return check_answer(self.clients[role].get(path, headers=headers))

    def post(self, role: str, path: str, data: dict[str, Any], *, part: bool = False) -> str:
        """Post and undo the changes, so that the next request finds the same world."""
        headers = {"HX-Request": "true"} if part else {}
        with transaction.atomic(), switched_on:
            answer = check_answer(self.clients[role].post(path, data, headers=headers))
            transaction.set_rollback(True)
        return answer


def check_answer(response: Any) -> str:
    body = b"".join(response.streaming_content) if response.streaming else response.content
    headers = "\n".join(f"{key}: {value}" for key, value in response.headers.items())
    cookies = response.cookies.output()
    return f"{response.status_code}\n{headers}\n{cookies}\n{body.decode(errors='replace')}"


# -- addresses: name → (path, what is posted or None)

Ask = tuple[str, dict[str, Any] | None]


def _slugs(world: World) -> list[str]:
    return ["leaks", "abroad"]


def _channels(world: World) -> list[tuple[str, str]]:
    return [(channel.workspace.slug, channel.slack_id) for channel in world.channels.values()]


def _of_workspace(name: str, *posts: dict[str, Any], query: str = "") -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for slug in _slugs(world):
            path = reverse(name, args=[slug])
            yield path, None
            if query:
                yield f"{path}?{query}", None
            for data in posts:
                yield path, data

    return asks


def _of_channel(name: str, *posts: dict[str, Any]) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for slug, slack_id in _channels(world):
            path = reverse(name, args=[slug, slack_id])
            yield path, None
            yield from ((path, data) for data in posts)
            if slug != "leaks":  # by the wrong workspace's address
                yield reverse(name, args=["leaks", slack_id]), None

    return asks


def _messages(world: World) -> Iterator[Ask]:
    for channel in world.channels.values():
        path = reverse("messages-index", args=[channel.workspace.slug, channel.slack_id])
        yield path, None
        first = channel.messages.order_by("micros").first()
        if first is not None:
            yield f"{path}?around={first.ts}", None
            yield f"{path}?after={first.ts}", None
        yield f"{path}?before={ts_from_micros(to_micros(world.now))}", None
        for version in MemoryVersion.objects.filter(memory__channel=channel)[:4]:
            yield f"{path}?v={version.pk}", None
            yield f"{path}?v={version.pk}&only=sources", None
        foreign = MemoryVersion.objects.exclude(memory__channel=channel).first()
        if foreign is not None:
            yield f"{path}?v={foreign.pk}", None


def _consents(world: World) -> Iterator[Ask]:
    path = reverse("oauth-authorize")
    asked_for = {"redirect_uri": APP, "response_type": "code", "scope": "read notes propose"}
    asked_for |= {"code_challenge": "c" * 43, "code_challenge_method": "S256"}
    for slug in _slugs(world):
        for client in OAuthClient.objects.order_by("pk"):
            query = asked_for | {"client_id": client.pk, "workspace": slug}
            yield f"{path}?{urlencode(query)}", None
    yield path, {"request": "x", "action": "grant"}


def _threads(world: World) -> Iterator[Ask]:
    for channel in world.channels.values():
        slug = channel.workspace.slug
        roots = channel.messages.exclude(thread_ts="").values_list("thread_ts", flat=True)
        for ts in sorted(set(roots)):
            path = reverse("threads-detail", args=[slug, channel.slack_id, ts])
            yield path, None
            yield f"{path}?after={ts}", None


def _uploads(world: World) -> Iterator[Ask]:
    for pk in Upload.objects.order_by("pk").values_list("pk", flat=True):
        path = reverse("imports-detail", args=[pk])
        yield path, None
        yield from ((path, {"do": what}) for what in ("start", "pause", "retry"))


def _of_rows(name: str, model: Any, *posts: dict[str, Any], gets: bool = True) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for pk in model.objects.order_by("pk").values_list("pk", flat=True):
            path = reverse(name, args=[pk])
            if gets:
                yield path, None
            yield from ((path, data) for data in posts)

    return asks


def _rows_of_workspace(name: str, model: Any, *posts: dict[str, Any], gets: bool = True) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for pk in model.objects.order_by("pk").values_list("pk", flat=True):
            for slug in _slugs(world):
                path = reverse(name, args=[slug, pk])
                if gets:
                    yield path, None
                yield from ((path, data) for data in posts)

    return asks


def _search(world: World) -> Iterator[Ask]:
    indexing.index_pending()  # all that was said until now could be found
    for slug in _slugs(world):
        path = reverse("search-index", args=[slug])
        yield path, None
        queries = [TYPED, "in:messages", "in:older has:link", "in:threads", "from:me"]
        queries += [f"{TYPED} in:{name}" for name in ("notes", "memories", "older", "messages")]
        queries += [f"{TYPED} in:{channel.slack_id}" for channel in world.channels.values()]
        for typed in queries:
            yield f"{path}?{urlencode({'q': typed})}", None
        yield f"{path}?{urlencode({'q': TYPED, 'sort': 'best', 'below': 10**17})}", None


def _messages_revoked(world: World) -> Iterator[Ask]:
    for channel in world.channels.values():
        for pk in channel.messages.values_list("pk", flat=True)[:2]:
            yield reverse("quarantine-message", args=["leaks", pk]), {"do": "revoke"}


def _note_pages(world: World) -> Iterator[Ask]:
    for path, _ in _rows_of_workspace("notes-detail", Note)(world):
        yield path, None
        yield f"{path}?v=1", None


def _notes_restored(world: World) -> Iterator[Ask]:
    for version in NoteVersion.objects.select_related("note").order_by("pk"):
        for slug in _slugs(world):
            path = reverse("notes-restore", args=[slug, version.note_id, version.number])
            yield path, {"based_on": "2", "revision": "1"}
            yield path, {"based_on": "1", "revision": "0"}


def _compared(world: World) -> Iterator[Ask]:
    for memory in Memory.objects.all():
        keys = list(memory.versions.order_by("number").values_list("pk", flat=True))
        for older, newer in zip(keys, keys[1:], strict=False):
            path = reverse("versions-compare", args=[older, newer])
            yield path, None
            yield f"{path}?view=split", None
        foreign = MemoryVersion.objects.exclude(memory=memory).first()
        if keys and foreign is not None:
            yield reverse("versions-compare", args=[keys[-1], foreign.pk]), None


def _undone(world: World) -> Iterator[Ask]:
    for path, _ in _compared(world):
        if not path.endswith("split"):
            yield f"{path}undo/", {"change": "0", "based_on": "2", "revision": "0"}


def _proposals(name: str) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for job in Job.objects.proposed().select_related("base"):
            data = {
                "job": job.pk,
                "based_on": job.base.number if job.base else 0,
            }
            yield reverse(name, args=[job.memory_id]), data | {"text": TYPED, "shown": _shown(job)}
            yield reverse(name, args=[job.memory_id]), data
            yield reverse(name, args=[job.memory_id]), {}

    return asks


def _shown(job: Job) -> str:
    """Return the hash that a form with the proposed text sends."""
    return hash_text(proposals.proposed_text(job)) if job.state == Job.State.PROPOSED else ""


def _review(world: World) -> Iterator[Ask]:
    for path, _ in _of_workspace("review-index")(world):
        yield path, None
        for key in _keys(Proposal):
            yield path, {"do": "approve", "chosen": [f"line-{key}"]}
        jobs = Job.objects.order_by("pk")
        texts = {f"text-of-text-{job.pk}": TYPED for job in jobs}
        shown = {f"shown-of-text-{job.pk}": _shown(job) for job in jobs}
        chosen = [f"text-{job.pk}" for job in jobs]
        yield path, {"do": "approve", "chosen": chosen, **texts, **shown}
        yield path, {"do": "approve", "chosen": chosen}


def _lines(world: World) -> Iterator[Ask]:
    for pk in Memory.objects.values_list("pk", flat=True):
        path = reverse("lines-edit", args=[pk, 0])
        yield path, None
        for number in (0, 1, 2):
            yield path, {"text": TYPED, "based_on": str(number), "revision": "0"}


def _corrections(world: World) -> Iterator[Ask]:
    for proposal in Proposal.objects.order_by("pk"):
        path = reverse("proposals-decide", args=[proposal.memory_id, proposal.pk])
        yield path, {"do": "approve", "based_on": "0", "revision": "0"}
        yield path, {"do": "reject"}


def _jobs_of(name: str) -> Any:
    """Every job by its own workspace's address, a few by the other's, and a person's word on some."""

    def asks(world: World) -> Iterator[Ask]:
        for pk in Job.objects.order_by("pk").values_list("pk", flat=True):
            yield reverse(name, args=["leaks", pk]), None
        for pk in Job.objects.order_by("-pk").values_list("pk", flat=True)[:8]:
            yield reverse(name, args=["abroad", pk]), None
            yield reverse(name, args=["leaks", pk]), {"do": "retry"}

    return asks


def _previews(name: str) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        for slug, slack_id in _channels(world):
            path = reverse(name, args=[slug])
            yield f"{path}?channel={slack_id}", None
            yield f"{path}?channel={slack_id}&budget=40", None
        for channel in world.channels.values():
            for reply in channel.messages.exclude(thread_ts="")[:1]:
                path = reverse(name, args=["leaks"])
                yield f"{path}?channel={channel.slack_id}&thread={reply.thread_ts}", None
        yield reverse(name, args=["leaks"]), None

    return asks


def _plain(name: str, *posts: dict[str, Any], args: tuple[Any, ...] = ()) -> Any:
    def asks(world: World) -> Iterator[Ask]:
        yield reverse(name, args=args), None
        yield from ((reverse(name, args=args), data) for data in posts)

    return asks


STALE = {"text": "my own words", "based_on": "1", "revision": "0"}
CHOSEN = {"do": "choose", "yours": "my own words", "seen": "1", "based_on": "2", "revision": "0"}

NEWEST = {"content": "mine", "based_on": "2", "revision": "1"}

MATRIX: dict[str, Callable[[World], Iterator[Ask]]] = {
    "livez": _plain("livez"),
    "api_keys-agent": _plain("api_keys-agent"),
    "api_keys-index": _of_workspace("api_keys-index", {"name": "x", "days": "30"}),
    "api_keys-revoke": _rows_of_workspace("api_keys-revoke", ApiKey, {}),
    "mcp": _plain("mcp", {"method": "tools/list"}),
    "readyz": _plain("readyz"),
    "metrics": _plain("metrics"),
    "set_language": _plain("set_language", {"language": "ja"}),
    "login": _plain("login", {"username": "as-member", "password": "wrong"}),
    "account_login": _plain("account_login"),
    "account_inactive": _plain("account_inactive"),
    "logout": _plain("logout", {}),
    "account_logout": _plain("account_logout"),
    "openid_connect_login": _plain("openid_connect_login", args=("slack",)),
    "openid_connect_callback": _plain("openid_connect_callback", args=("slack",)),
    "socialaccount_login_error": _plain("socialaccount_login_error"),
    "socialaccount_login_cancelled": _plain("socialaccount_login_cancelled"),
    "account_reauthenticate": _plain("account_reauthenticate", {"password": "wrong"}),
    "account_change_password": _plain("account_change_password", {"oldpassword": "wrong"}),
    "account_set_password": _plain("account_set_password", {"password1": "a", "password2": "b"}),
    "mfa_index": _plain("mfa_index"),
    "mfa_authenticate": _plain("mfa_authenticate", {"code": "123456"}),
    "mfa_reauthenticate": _plain("mfa_reauthenticate", {"code": "123456"}),
    "mfa_activate_totp": _plain("mfa_activate_totp", {"code": "123456"}),
    "mfa_deactivate_totp": _plain("mfa_deactivate_totp", {}),
    "mfa_view_recovery_codes": _plain("mfa_view_recovery_codes"),
    "mfa_generate_recovery_codes": _plain("mfa_generate_recovery_codes", {}),
    "mfa_download_recovery_codes": _plain("mfa_download_recovery_codes"),
    "mfa_list_webauthn": _plain("mfa_list_webauthn"),
    "mfa_add_webauthn": _plain("mfa_add_webauthn", {"credential": "{}"}),
    "mfa_reauthenticate_webauthn": _plain("mfa_reauthenticate_webauthn"),
    "mfa_remove_webauthn": _plain("mfa_remove_webauthn", {}, args=(1,)),
    "mfa_edit_webauthn": _plain("mfa_edit_webauthn", {"name": "mine"}, args=(1,)),
    "workspaces-index": _plain("workspaces-index"),
    "setup-index": _plain("setup-index"),
    "guide-index": _plain("guide-index"),
    "setup-demo": _plain("setup-demo", {}),
    "setup-model": _plain("setup-model", {}, {"do": "save", "model": "tiny"}),
    "invitations-accept": _plain(
        "invitations-accept", {"username": "new", "password1": "a"}, args=("no-token",)
    ),
    "invitations-index": _of_workspace("invitations-index", {"role": "member"}, {"revoke": "1"}),
    "imports-index": _plain("imports-index", {"slug": "leaks"}),
    "imports-detail": _uploads,
    "preferences-edit": _plain("preferences-edit", {"time_zone": "nowhere"}),
    "digests-edit": _plain("digests-edit", {"frequency": "daily"}),
    "digests-feed_address": _plain("digests-feed_address", {}, {"do": "revoke"}),
    "digests-feed": _plain("digests-feed", args=("unknown",)),
    "digests-unsubscribe": _plain("digests-unsubscribe", {}, args=("unknown",)),
    "oauth-server": _plain("oauth-server"),
    "oauth-resource": _plain("oauth-resource"),
    "oauth-mcp_resource": _plain("oauth-mcp_resource"),
    "oauth-authorize": _consents,
    "oauth-token": _plain("oauth-token", {"grant_type": "refresh_token", "refresh_token": "x"}),
    "oauth-revoke": _plain("oauth-revoke", {"token": "x"}),
    "oauth-register": _plain("oauth-register", {"redirect_uris": "x"}),
    "preferences-set_theme": _plain("preferences-set_theme", {"theme": "dark"}),
    "events-receive": _plain("events-receive", {"type": "event_callback"}),
    "requests-commands": _plain("requests-commands", {"command": "/memory"}),
    "requests-interactivity": _plain("requests-interactivity", {"payload": "{}"}),
    "workspaces-detail": _of_workspace("workspaces-detail"),
    "catch_up-index": _of_workspace("catch_up-index", query="since=7d"),
    "catch_up-mark_all": _of_workspace("catch_up-mark_all", {"seen": ["1:1", "2:1"]}),
    "catch_up-mark": _rows_of_workspace(
        "catch_up-mark",
        Memory,
        *({"number": str(number)} for number in (1, 2)),
        *({"number": str(number), "undo": "1"} for number in (1, 2)),
        gets=False,
    ),
    "people-index": _of_workspace(
        "people-index",
        {"name": "as-member", "role": "admin"},
        {"user": "1", "do": "appoint"},
        query=f"q={TYPED}",
    ),
    "settings-edit": _of_workspace(
        "settings-edit",
        {"time_zone": "nowhere"},
        {"do": "workspace", "workspace-name": "x", "workspace-domain": "a b"},
        {"do": "budget", "budget-money": "-1"},
    ),
    "settings-probe": _of_workspace("settings-probe", {}),
    "slack-index": _of_workspace("slack-index", {"channel": "CSECRET"}, query=f"q={TYPED}"),
    "slack-test": _of_workspace("slack-test", {}),
    "jobs-index": _of_workspace("jobs-index", {"do": "retry_failed"}, {"retry": "1"}),
    "jobs-detail": _jobs_of("jobs-detail"),
    "jobs-resume": _of_workspace("jobs-resume", {}),
    "costs-index": _of_workspace("costs-index"),
    "context-index": _previews("context-index"),
    "context-download": _previews("context-download"),
    "backfill-index": _of_workspace("backfill-index", {"channel": "CSECRET", "since": "all"}),
    "backfill-detail": _rows_of_workspace("backfill-detail", Backfill, {"do": "pause"}),
    "search-index": _search,
    "ask-index": _of_workspace("ask-index", {"q": TYPED}, query=f"q={TYPED}"),
    "notes-index": _of_workspace("notes-index", {"content": " "}, query=f"q={TYPED}"),
    "notes-edit": _rows_of_workspace(
        "notes-edit",
        Note,
        {"content": " "},
        {"content": "mine"},
        NEWEST,
        {
            "do": "choose",
            "content": "mine",
            "yours": "mine",
            "seen": "1",
            "based_on": "2",
            "revision": "1",
        },
    ),
    "notes-detail": _note_pages,
    "notes-mark": _rows_of_workspace("notes-mark", Note, {"pinned": "1"}, gets=False),
    "notes-restore": _notes_restored,
    "notes-delete": _rows_of_workspace("notes-delete", Note, {}, gets=False),
    "trash-index": _of_workspace("trash-index"),
    "trash-undelete": _rows_of_workspace("trash-undelete", Note, {}, gets=False),
    "trash-purge": _rows_of_workspace("trash-purge", Note, {}),
    "quarantine-index": _of_workspace("quarantine-index"),
    "review-index": _review,
    "quarantine-accept": _rows_of_workspace(
        "quarantine-accept", QuarantinedLine, {"based_on": "1", "revision": "0"}, gets=False
    ),
    "quarantine-reject": _rows_of_workspace("quarantine-reject", QuarantinedLine, {}, gets=False),
    "quarantine-message": _messages_revoked,
    "quarantine-person": _rows_of_workspace(
        "quarantine-person", Person, {"do": "revoke"}, gets=False
    ),
    "channels-detail": _of_channel("channels-detail"),
    "channels-follow": _of_channel("channels-follow", {"choice": "follow"}, {"choice": "mute"}),
    "channels-opt_in": _of_channel("channels-opt_in", {"on": "1"}, {"on": "0"}),
    "updates-channel": _of_channel("updates-channel", {}),
    "messages-index": _messages,
    "threads-index": _of_channel("threads-index"),
    "threads-detail": _threads,
    "archive-index": _of_rows("archive-index", Memory),
    "archive-restore": _of_rows("archive-restore", Memory, {"line": "1"} | STALE, gets=False),
    "lines-edit": _lines,
    "memories-edit": _of_rows("memories-edit", Memory, STALE, CHOSEN),
    "memories-preview": _of_rows("memories-preview", Memory, STALE, gets=False),
    "memories-draft": _of_rows("memories-draft", Memory, STALE, {"do": "discard"}, gets=False),
    "memories-versions": _of_rows("memories-versions", Memory),
    "updates-detail": _of_rows("updates-detail", Memory, {}),
    "rebuilds-detail": _of_rows("rebuilds-detail", Memory, {}),
    "proposals-detail": _of_rows("proposals-detail", Memory),
    "proposals-decide": _corrections,
    "proposals-accept": _proposals("proposals-accept"),
    "proposals-reject": _proposals("proposals-reject"),
    "versions-detail": _of_rows("versions-detail", MemoryVersion),
    "versions-sources": _of_rows("versions-sources", MemoryVersion),
    "versions-restore": _of_rows(
        "versions-restore", MemoryVersion, {"based_on": "1"}, {"based_on": "2"}, gets=False
    ),
    "versions-name": _of_rows("versions-name", MemoryVersion, {"name": "mine"}, gets=False),
    "versions-pin": _of_rows(
        "versions-pin",
        MemoryVersion,
        {"pin": "0", "revision": "0", "on": "memory"},
        {"pin": "0", "revision": "0", "on": "version"},
        gets=False,
    ),
    "versions-compare": _compared,
    "versions-undo": _undone,
}
AS_PARTS = {
    "search-index",
    *(
        "channels-detail",
        "messages-index",
        "lines-edit",
        "memories-edit",
        "updates-detail",
        "updates-channel",
        "notes-index",
        "versions-detail",
    ),
    *("memories-preview", "memories-draft"),
    *(
        "versions-sources",
        "versions-restore",
        "versions-name",
        "versions-pin",
        "slack-index",
        "quarantine-index",
    ),
    *("jobs-index", "jobs-detail", "context-index"),
    *("catch_up-index", "catch_up-mark", "catch_up-mark_all"),
    *("notes-mark", "notes-delete", "trash-undelete", "trash-purge"),
}


def named_addresses() -> set[str]:
    """Every name of the resolver but the admin's, which go by model."""
    patterns = get_resolver().url_patterns
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    return names | set(_names(patterns))


def _names(patterns: Any) -> Iterator[str]:
    for pattern in patterns:
        inner = getattr(pattern, "url_patterns", None)
        if getattr(pattern, "namespace", None) in ("admin", "api"):
            continue
        if inner is not None:
            yield from _names(inner)
        elif pattern.name:
            yield pattern.name


# -- the admin: models whose pages are asked for; of rows that have readers, all private ones

ADMIN = {
    *("account.emailaddress", "auth.group", "memories.auditevent", "memories.backfill"),
    *("memories.modelcall", "memories.budget", "memories.channel", "memories.channelmember"),
    *("memories.endpoint", "memories.job", "memories.heartbeat", "memories.member"),
    *("memories.memory", "memories.memoryversion", "memories.message", "memories.note"),
    *("memories.accessgrant", "memories.person", "memories.price", "memories.quarantinedline"),
    *("memories.apikey", "memories.proposal"),
    *("memories.segment", "memories.slackconnection", "memories.slackevent", "memories.user"),
    *("memories.workspace", "django_q.failure", "django_q.ormq", "django_q.schedule"),
    "django_q.success",
}


ALONE = 20  # rows on which each action is tried one by one
CONFIRMED: dict[str, dict[str, Any]] = {  # what an action asks for before it does anything
    "forget_permanently": {"confirmed": "yes"},
    "restore": {"rendered_at": "2100-01-01T00:00:00+00:00"},  # whatever stands there was seen
}


def admin_asks(world: World) -> Iterator[Ask]:
    yield reverse("admin:index"), None
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        listed = reverse(f"{name}_changelist")
        yield from ((listed, None), (f"{listed}?q={TYPED}", None), (reverse(f"{name}_add"), None))
        keys = list(model._base_manager.order_by("-pk").values_list("pk", flat=True)[:60])
        for pk in keys:
            for page in ("change", "history", "delete"):
                yield reverse(f"{name}_{page}", args=[pk]), None
        yield from ((listed, data) for data in _deeds(model, keys))
        for row in model._meta.get_fields():
            if row.is_relation and row.concrete and row.related_model in admin.site._registry:
                yield (
                    f"{reverse('admin:autocomplete')}?app_label={model._meta.app_label}"
                    f"&model_name={model._meta.model_name}&field_name={row.name}&term={TYPED}",
                    None,
                )
    for channel in world.channels.values():
        for name in ("message", "segment", "note", "memory", "channelmember"):
            listed = reverse(f"admin:memories_{name}_changelist")
            yield f"{listed}?channel__id__exact={channel.pk}", None
    for memory in Memory.objects.all():
        listed = reverse("admin:memories_memoryversion_changelist")
        yield f"{listed}?memory__id__exact={memory.pk}", None
        change = reverse("admin:memories_memory_change", args=[memory.pk])
        yield change, {"text": "mine", "based_on": "1", "revision": "0", "initial_pins": ""}
    proposed = Job.objects.proposed()
    changes = {reverse("admin:memories_job_change", args=[job.pk]): _shown(job) for job in proposed}
    for pk in Proposal.objects.values_list("pk", flat=True):
        changes[reverse("admin:memories_proposal_change", args=[pk])] = "x"
    for change, shown in changes.items():
        form = {"text": "mine", "based_on": "1", "revision": "0", "shown": shown}
        yield from ((change, form | {button: ""}) for button in ("_save", "_reject"))
    for channel in world.channels.values():
        grant = {"channel": channel.pk, "reason": "to look"}
        yield reverse("admin:memories_accessgrant_add"), grant
        key = {"name": "x", "days": "90", "requests_per_minute": "1", "channels": channel.slack_id}
        yield reverse("admin:memories_apikey_add"), key | {"workspace": channel.workspace_id}


def _deeds(model: Any, keys: list[int]) -> Iterator[dict[str, Any]]:
    """Every action of the model's list, on all rows at once and on some alone."""
    model_admin = admin.site._registry[model]
    own = [name for _, name, _ in model_admin._get_base_actions() if name != "delete_selected"]
    for action in ("delete_selected", *own):
        chosen = [keys, *([key] for key in keys[:ALONE] if action in own)]
        for rows in chosen if keys else ():
            data = {"action": action, "_selected_action": rows}
            yield data
            if action in CONFIRMED:
                yield data | CONFIRMED[action]


# -- the API and MCP: each operation with the ids of everything, readable or not


def api_asks(world: World) -> Iterator[Ask]:
    """Operations of the API by their addresses, and every tool of MCP."""
    indexing.index_pending()
    channels = [channel.slack_id for channel in world.channels.values()]
    for path in (
        "context?format=json&budget=20000",
        "channels",
        "notes",
        "changes",
        "proposals",
        "status",
    ):
        yield f"/api/v1/{path}", None
    yield f"/api/v1/search?limit=50&q={TYPED}", None
    for slack_id in channels:
        yield f"/api/v1/channels/{slack_id}", None
        yield f"/api/v1/context?budget=20000&query={TYPED}&channel={slack_id}", None
        yield f"/api/v1/search?q={TYPED}&in={slack_id}", None
        yield "/api/v1/notes", {"content": "x", "channel": slack_id}
        yield _tool("get_context", channel=slack_id, query=TYPED, budget=20_000)
        yield _tool("search", query=TYPED, limit=50, **{"in": slack_id})
        yield "/mcp", _call("resources/read", uri=f"memory://channel/{slack_id}")
        yield _tool("whats_new", since="2000-01-01", channel=slack_id)
    now = urlencode({"at": timezone.now().isoformat()})
    yield f"/api/v1/context?format=json&budget=20000&{now}", None
    for pk in _keys(Memory):
        yield _tool("fetch", id=f"memory-{pk}")
        for suffix in ("", f"?{now}", "/versions", "/versions/1", "/diff?from=1&to=2"):
            yield f"/api/v1/memories/{pk}{suffix}", None
        yield f"/api/v1/memories/{pk}/proposals", {"text": "mine", "reason": "so"}
    for pk in _keys(Proposal):
        yield f"/api/v1/proposals/{pk}", None
    for wording in EarlierWording.objects.select_related("version__memory__channel"):
        memory = wording.version.memory
        place = {"channel": memory.channel.slack_id, "thread": memory.thread_ts}
        before = {"at": (wording.replaced_at - timedelta(microseconds=1)).isoformat()}
        yield f"/api/v1/memories/{memory.pk}?{urlencode(before)}", None
        yield f"/api/v1/context?{urlencode(place | before)}", None
    for pk in _keys(Line):
        yield f"/api/v1/lines/{pk}/sources", None
        yield _tool("fetch", id=f"line-{pk}")
        yield _tool("propose_correction", line_id=f"line-{pk}", text="mine", reason="so")
    for kind, model in (("message", Message), ("version", MemoryVersion), ("note", Note)):
        for pk in _keys(model):
            if kind != "version":
                yield f"/api/v1/{kind}s/{pk}", None
            yield _tool("fetch", id=f"{kind}-{pk}")
    yield _tool("get_context", budget=20_000)
    yield _tool("search", query=TYPED, limit=50)
    yield "/mcp", _call("resources/read", uri="memory://workspace")
    yield _tool("whats_new", since="2000-01-01")


def _keys(model: Any) -> list[int]:
    return list(model.objects.order_by("pk").values_list("pk", flat=True))


def _tool(name: str, **arguments: Any) -> Ask:
    return "/mcp", _call("tools/call", name=name, arguments=arguments)


def _call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


# -- commands: how they are asked for one reader, or why they read for nobody


def _context(world: World) -> Iterator[list[str]]:
    yield ["context", "--workspace", "leaks", "--notes"]
    yield ["context", "--workspace", "abroad", "--notes", "--format", "json"]
    for channel in world.channels.values():
        for reply in channel.messages.exclude(thread_ts="")[:1]:
            yield [
                *("context", "--workspace", "leaks", "--channel", channel.slack_id),
                *("--thread", reply.thread_ts, "--format", "json"),
            ]
        yield ["context", "--workspace", "leaks", "--channel", channel.slack_id]
        yield ["context", "--workspace", "leaks", "--channel", channel.name]


def _memory(world: World) -> Iterator[list[str]]:
    for slug in _slugs(world):
        yield ["memory", "list", "--workspace", slug]
        yield ["memory", "search", "--workspace", slug, "--format", "json", TYPED]
    for note in Note.objects.all():
        yield ["memory", "delete", "--workspace", "leaks", str(note.pk)]


def _revise(world: World) -> Iterator[list[str]]:
    for slug in _slugs(world):
        yield ["revise", "--workspace", slug, "--show"]
    for channel in world.channels.values():
        own = ["revise", "--workspace", "leaks", "--channel", channel.slack_id]
        for kind in ("long_term", "short_term"):
            yield [*own, "--type", kind, "--show", "--json"]
            yield [*own, "--type", kind, "--restore", "1", "--based-on", "2", "--json"]


def _rebuild(world: World) -> Iterator[list[str]]:
    for slug in _slugs(world):
        yield ["rebuild", "--workspace", slug, "--memory", "workspace", "--json"]
    for channel in world.channels.values():
        yield ["rebuild", "--workspace", "leaks", "--memory", channel.slack_id, "--json"]


def _jobs(world: World) -> Iterator[list[str]]:
    yield ["jobs", "list", "--limit", "200"]
    yield ["jobs", "list", "--json", "--workspace", "leaks", "--limit", "200"]
    for channel in world.channels.values():
        yield ["jobs", "list", "--workspace", "leaks", "--channel", channel.slack_id]
    for pk in Job.objects.order_by("-pk").values_list("pk", flat=True)[:60]:
        yield ["jobs", "show", "--json", str(pk)]


def _costs(world: World) -> Iterator[list[str]]:
    for by in ("day", "channel", "model"):
        yield ["costs", "--by", by, "--json"]


def _backfill(world: World) -> Iterator[list[str]]:
    yield ["backfill", "--workspace", "leaks", "--estimate", "--json"]
    yield ["backfill", "--workspace", "leaks", "--status"]
    for channel in world.channels.values():
        yield ["backfill", "--workspace", "leaks", "--channel", channel.slack_id, "--estimate"]


def _export(world: World) -> Iterator[list[str]]:
    for slug in _slugs(world):
        yield ["export", "--workspace", slug, "--force"]


COMMANDS: dict[str, Callable[[World], Iterator[list[str]]] | str] = {
    "backfill": _backfill,
    "context": _context,
    "costs": _costs,
    "export": _export,
    "jobs": _jobs,
    "memory": _memory,
    "rebuild": _rebuild,
    "revise": _revise,
    "api_key": "makes keys, for whoever holds the machine",
    "mcp": "reads as a key does: see `api_asks`",
    "backup": "a copy of everything, for whoever holds the machine",
    "createadmin": "makes an account",
    "restore": "brings a copy back",
    "demo": "makes a workspace of its own",
    "forget": "says numbers of rows, to whoever holds the machine",
    "import": "imports a workspace; says numbers",
    "import_slack": "takes in an export; says numbers",
    "mfa_reset": "takes second factors away",
    "prompt": "the prompts with words of its own",
    "slack_manifest": "prints scopes, events and addresses",
    "probe_model": "asks the model with words of its own",
    "rotate_keys": "says numbers",
    "run_pass": "says numbers",
    "serve": "runs processes",
    "settings": "settings of a workspace",
    "slack_test": "whether Slack answers",
    "slack_token": "keeps a token",
    "socket": "takes in events",
    "sync": "takes in what Slack says; says numbers, to whoever holds the machine",
    "sync_schedules": "says numbers",
    "upgrade_check": "says numbers",
    "worker": "runs processes",
}


def run_command(arguments: list[str], role: str) -> str:
    """Run a command for this reader (``public``: without one), undo its changes and return the
    output.
    """
    out, err = io.StringIO(), io.StringIO()
    reader = [] if role == "public" else ["--as", f"as-{role}"]
    with tempfile.TemporaryDirectory() as folder:
        export_path = Path(folder) / "export.zip"
        files = [str(export_path)] if arguments[0] == "export" else []
        at = 2 if arguments[0] in ("memory", "jobs") else 1
        words = [*arguments[:at], *reader, *arguments[at:], *files]
        failed = ""
        try:
            with transaction.atomic():
                call_command(*words, stdout=out, stderr=err)
                transaction.set_rollback(True)
        except (CommandError, SystemExit) as error:
            failed = "" if str(error) and any(a in str(error) for a in arguments) else str(error)
        content = _unpacked(export_path) if export_path.exists() else ""
    output = out.getvalue() + err.getvalue()
    for typed in arguments:  # repeated as it was typed
        output = output.replace(f"'{typed}'", "")
    if arguments[0] == "rebuild" and Channel.objects.filter(
        name=word("harbor", "channel"), in_workspace_memory=True
    ):  # its long-term text is for the readers of the workspace's memory
        output = output.replace(word("harbor", "new"), "")
    return f"{output}\n{failed}\n{content}"


def _unpacked(export_path: Path) -> str:
    with zipfile.ZipFile(export_path) as file:
        inside = (file.read(name).decode(errors="replace") for name in file.namelist())
        return "\n".join([*file.namelist(), *inside])


# -- all of it


def probes(world: World) -> Iterator[Probe]:
    for name, asks in MATRIX.items():
        for path, data in asks(world):
            for role in (*ROLES, "anonymous"):
                if name in ("logout", "account_logout", "login") and data is not None:
                    role_asked = "anonymous"  # the others stay signed in
                    if role != role_asked:
                        continue
                yield _web(role, path, data)
                if name in AS_PARTS and role != "anonymous":
                    yield _web(role, path, data, part=True)
    for path, data in admin_asks(world):
        for role in ROLES:
            yield _web(role, path, data)
    for path, data in api_asks(world):
        for role in ROLES:
            for slug in _slugs(world):
                yield _api(role, slug, path, data)
                yield _api(role, slug, path, data, app=True)
    for who, place, request in slack_asks(world, TYPED):
        for role in ROLES:
            yield _slack(role, who, place, request)
    for asks_command in COMMANDS.values():
        if isinstance(asks_command, str):
            continue
        for arguments in asks_command(world):
            for role in (*ROLES, "public"):
                yield _command(role, arguments)


def _web(role: str, path: str, data: dict[str, Any] | None, *, part: bool = False) -> Probe:
    what = f"{'GET' if data is None else 'POST'} {path}{' (part)' if part else ''}"
    if data is None:
        return Probe(role, what, lambda eyes: eyes.get(role, path, part=part))
    return Probe(role, what, lambda eyes: eyes.post(role, path, data, part=part))


def _api(
    role: str, slug: str, path: str, data: dict[str, Any] | None, *, app: bool = False
) -> Probe:
    what = f"API of {slug}{' by an app' if app else ''}: {path} {data or ''}"
    return Probe(role, what, lambda eyes: eyes.api(role, slug, path, data, app=app))


def _slack(role: str, who: str, place: str, request: AppRequest) -> Probe:
    what = f"Slack, {place}: {request.kind} {request.text[:80]}"
    return Probe(role, what, lambda eyes: see(eyes.world, role, who, place, request))


def _command(role: str, arguments: list[str]) -> Probe:
    return Probe(role, " ".join(arguments), lambda eyes: run_command(arguments, role))


def records() -> str:
    """What is kept about deeds, of which nothing may hold a word of anybody's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM memoryhub_cache")
        cached = [str(value) for (value,) in cursor.fetchall()]
    events = [
        f"{event.actor} {event.subject} {event.details}" for event in AuditEvent.objects.all()
    ]
    entries = [f"{entry.object_repr} {entry.change_message}" for entry in LogEntry.objects.all()]
    return "\n".join([*events, *entries, *cached])


class Overheard(logging.Handler):
    """Every line that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))

    @property
    def words(self) -> set[str]:
        return {match[0] for match in WORD.finditer("\n".join(self.lines))}


@contextmanager
def overhearing() -> Iterator[Overheard]:
    heard, root = Overheard(), logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.INFO)
    try:
        yield heard
    finally:
        root.removeHandler(heard)
        root.setLevel(level)
