"""A workspace's way to Slack: which token serves, what Slack lets it do, and what is read of it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memories.models import Channel, Reader, SlackConnection, User, Workspace
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.sync.slack_budget import SharedLimiter
from memories.rules.safety.encryption import DecryptionError
from memories.rules.sync import scopes
from memories.rules.sync.scopes import Feature
from memories.slack.web import Identity, SlackClient, SlackError

_Words = str | Promise
State = SlackConnection.State

_STOPPED = {State.REVOKED: "token_revoked", State.UNINSTALLED: "account_inactive"}
# Slack's word → what became of the token. Any other refusal may be a matter of minutes.
_ENDS = {
    "account_inactive": State.UNINSTALLED,
    "invalid_auth": State.REVOKED,
    "token_expired": State.REVOKED,
    "token_revoked": State.REVOKED,
}

# What a person does about what stops all of it; whatever else Slack says is told in its own words.
SENTENCES: dict[str, _Words] = {
    "no_token": _(
        "There is no token. An operator keeps one in the admin or with `manage.py slack_token set`,"
        " or sets SLACK_BOT_TOKEN."
    ),
    "no_key": _(
        "None of MEMORYHUB_KEYS opens the token that is kept: give the key that it was sealed with,"
        " or set the token again."
    ),
    "invalid_auth": _("Slack does not know this token: copy it again from the page of the app."),
    "token_revoked": _("The token was revoked: install the app again and set its new token."),
    "token_expired": _(
        "The token has expired: switch token rotation off in the app and set its new token."
    ),
    "account_inactive": _(
        "The app was removed from Slack: install it again and set its new token."
    ),
    "unreachable": _("Slack cannot be reached: test again in a minute."),
    "ratelimited": _("Slack asks for a pause: test again in a minute."),
    "untested": _("It was not tested yet."),
}

# What stands still without a scope.
FEATURE_NAMES: dict[Feature, _Words] = {
    Feature.CHANNELS: _("the list of public channels and of who is in them"),
    Feature.MESSAGES: _("messages and threads of public channels"),
    Feature.PEOPLE: _("the names of people"),
    Feature.PRIVATE_CHANNELS: _("the list of private channels and of who is in them"),
    Feature.PRIVATE_MESSAGES: _("messages and threads of private channels"),
    Feature.EMAILS: _("e-mail addresses, by which people are linked to their accounts"),
}
_OPTIONAL = {
    **dict.fromkeys(scopes.FOR_PRIVATE_CHANNELS, "read_private_channels"),
    **dict.fromkeys(scopes.FOR_EMAILS, "read_emails"),
}


class Source(StrEnum):
    """Where a workspace's token comes from."""

    KEPT = "kept"  # set for it, sealed in the database
    ENVIRONMENT = "environment"
    NONE = "none"


def source_of(workspace: Workspace) -> Source:
    if SlackConnection.objects.with_token().filter(workspace=workspace).exists():
        return Source.KEPT
    return Source.ENVIRONMENT if settings.SLACK_BOT_TOKEN else Source.NONE


def client_for(workspace: Workspace, *, even_stopped: bool = False, **options: Any) -> SlackClient:
    """Slack with the token of this workspace: the one kept for it, else SLACK_BOT_TOKEN.

    Raises a `SlackError` that refuses the token when there is none, when no key opens it, or when
    Slack took it back; ``even_stopped`` asks Slack once more whether it did. ``options`` are those
    of `SlackClient`.
    """
    connection = SlackConnection.objects.filter(workspace=workspace).first()
    token = _token(connection)
    if token and (connection is None or not connection.has_token):
        connection = connection or SlackConnection.objects.of(workspace)
        connection.uses(token)
    if connection and not connection.is_live and not even_stopped:
        code = _STOPPED[State(connection.state)]
        raise SlackError(code, str(SENTENCES[code]), permanent=True)
    defaults: dict[str, Any] = {
        "limiter": SharedLimiter(token),
        "slow_plan": connection is not None and connection.slow_plan,
    }
    return SlackClient(token, settings.SLACK_BASE_URL, **defaults | options)


def disconnect_if_rejected(
    workspace: Workspace, client: SlackClient, error: SlackError, now: datetime
) -> bool:
    """What Slack refused with ``error`` may be the end of the client's token: then nothing more is
    asked until there is a new one. False: it is not, or there is a new one already."""
    if error.code not in _ENDS:
        return False
    connection = SlackConnection.objects.of(workspace)
    if connection.token_end not in ("", client.token_end):
        return False
    connection.stops(_ENDS[error.code], error.message, now)
    return True


def may_be_asked(workspace: Workspace) -> bool:
    """Whether there is a token that Slack has not taken back; asks nobody."""
    try:
        client_for(workspace)
    except SlackError:
        return False
    return True


def _token(connection: SlackConnection | None) -> str:
    try:
        kept = connection.token() if connection else ""
    except DecryptionError as error:
        raise SlackError("no_key", str(SENTENCES["no_key"]), permanent=True) from error
    return kept or settings.SLACK_BOT_TOKEN


# What Slack lets it do


@dataclass(frozen=True)
class Missing:
    """A scope that the app lacks: what stands still without it, and what to do."""

    scope: str
    feature: Feature

    @property
    def off(self) -> _Words:
        return FEATURE_NAMES[self.feature]

    @property
    def fix(self) -> str:
        setting = _OPTIONAL.get(self.scope)
        if setting is None:
            return _(
                "Add the scope %(scope)s to the app (OAuth & Permissions, Bot Token Scopes) and"
                " install it again."
            ) % {"scope": self.scope}
        return _(
            "Add the scope %(scope)s to the app (OAuth & Permissions, Bot Token Scopes) and"
            " install it again, or switch %(setting)s off."
        ) % {"scope": self.scope, "setting": setting}


@dataclass(frozen=True)
class Findings:
    """What a test of the connection found. ``code`` is the word for what stops all of it, "" for
    nothing, ``error`` its sentence; ``scopes`` None: Slack did not tell them."""

    workspace: str
    source: Source
    token_end: str = ""
    code: str = ""
    error: _Words = ""
    identity: Identity | None = None
    scopes: tuple[str, ...] | None = None
    missing: tuple[Missing, ...] = ()
    surplus: tuple[str, ...] = ()
    slow_plan: bool = False
    notes: tuple[_Words, ...] = field(default=())

    @property
    def is_good(self) -> bool:
        """Everything that this workspace's settings ask for can be read."""
        return not self.code and not self.missing

    def as_json(self) -> dict[str, Any]:
        identity = self.identity
        return {
            "workspace": self.workspace,
            "ok": self.is_good,
            "token": {"source": self.source.value, "end": self.token_end},
            "code": self.code,
            "error": str(self.error),
            "team_id": identity.team_id if identity else "",
            "team_name": identity.team_name if identity else "",
            "bot_id": identity.bot_id if identity else "",
            "scopes": None if self.scopes is None else list(self.scopes),
            "missing": [
                {"scope": missing.scope, "off": str(missing.off), "fix": str(missing.fix)}
                for missing in self.missing
            ],
            "surplus": list(self.surplus),
            "slow_plan": self.slow_plan,
            "notes": [str(note) for note in self.notes],
        }


def examine(workspace: Workspace, now: datetime, **options: Any) -> Findings:
    """Ask Slack, also about a token that it refused before. Never raises: what goes wrong is what
    was to be found. One call, outside any transaction."""
    try:
        client = client_for(workspace, even_stopped=True, **options)
    except SlackError as error:
        return Findings(
            workspace.slug, source_of(workspace), code=error.code, error=_sentence(error)
        )
    return check(workspace, client, now)


def check(workspace: Workspace, client: SlackClient, now: datetime) -> Findings:
    """What the token may do, measured against the workspace's settings; kept on its connection."""
    connection = SlackConnection.objects.of(workspace)
    source = source_of(workspace)

    def findings(**values: Any) -> Findings:
        return Findings(workspace.slug, source, token_end=connection.token_end, **values)

    try:
        identity = client.identity()
    except SlackError as error:
        disconnect_if_rejected(workspace, client, error, now)
        return findings(code=error.code, error=_sentence(error))
    refused = _refused(workspace, identity)
    if refused:
        code, sentence = refused
        connection.has_trouble(str(sentence), now)
        return findings(code=code, error=sentence, identity=identity)
    if client.scopes is None:
        sentence = _("Slack did not say what the token may do: test again.")
        return findings(code="no_scopes", error=sentence, identity=identity)
    connection.was_checked(
        scopes=client.scopes, bot_id=identity.bot_id, app_id=identity.app_id, now=now
    )
    return findings(identity=identity, **_measured(connection, workspace))


def last_check(workspace: Workspace) -> Findings:
    """What the last test found, measured against the settings of now. Asks nobody, writes nothing."""
    source = source_of(workspace)
    connection = SlackConnection.objects.filter(workspace=workspace).first()
    end = settings.SLACK_BOT_TOKEN[-4:] if source is Source.ENVIRONMENT else None
    if source is Source.NONE or connection is None or end not in (None, connection.token_end):
        code = "no_token" if source is Source.NONE else "untested"
        return Findings(workspace.slug, source, end or "", code=code, error=SENTENCES[code])
    values: dict[str, Any]
    if not connection.is_live:
        code = _STOPPED[State(connection.state)]
        values = {"code": code, "error": SENTENCES[code]}
    elif connection.trouble:
        values = {"code": "refused", "error": connection.trouble}
    elif connection.checked_at is None:
        values = {"code": "untested", "error": SENTENCES["untested"]}
    else:
        values = _measured(connection, workspace)
    return Findings(workspace.slug, source, token_end=connection.token_end, **values)


def _measured(connection: SlackConnection, workspace: Workspace) -> dict[str, Any]:
    """The scopes that Slack told, beside those that the settings ask for."""
    memory_settings = workspace.memory_settings
    grant = scopes.compare_scopes(
        connection.scopes,
        private_channels=memory_settings.read_private_channels,
        emails=memory_settings.read_emails,
    )
    return {
        "scopes": tuple(connection.scopes),
        "missing": tuple(Missing(scope, feature) for scope, feature in grant.missing.items()),
        "surplus": tuple(grant.surplus),
        "slow_plan": connection.slow_plan,
        "notes": tuple(_notes(grant.surplus, slow_plan=connection.slow_plan)),
    }


def _sentence(error: SlackError) -> _Words:
    return SENTENCES.get(error.code, error.message)


def _refused(workspace: Workspace, identity: Identity) -> tuple[str, _Words] | None:
    """Why nothing may be read with a token that works."""
    if not identity.team_id:
        return "malformed", _("This is not an answer of Slack: it names no team.")
    if workspace.team_id and workspace.team_id != identity.team_id:
        sentence = _(
            "The token belongs to the Slack team %(theirs)s, and this workspace is %(ours)s."
        )
        return "wrong_team", sentence % {"theirs": identity.team_id, "ours": workspace.team_id}
    if not identity.bot_id:
        return "not_a_bot", _(
            "This is a person's token: it would read what that person reads. Give the bot token"
            " (xoxb-…) of the app."
        )
    return None


def _notes(surplus: Collection[str], *, slow_plan: bool) -> list[_Words]:
    notes: list[_Words] = []
    if surplus:
        notes.append(
            _("The app may do more than is asked of it; these scopes can go: %(scopes)s.")
            % {"scopes": ", ".join(surplus)}
        )
    if slow_plan:
        notes.append(
            _(
                "Slack lets this app read 15 messages a minute. An app of your own, made from the"
                " manifest for your workspace alone, is not limited so."
            )
        )
    return notes


def begin(workspace: Workspace, findings: Findings, now: datetime) -> bool:
    """Take the team over after a good test, so that the worker reads who and what is there. False:
    the test was not good."""
    identity = findings.identity
    if not findings.is_good or identity is None:
        return False
    workspace.connect(identity.team_id, name=identity.team_name, domain=identity.domain, now=now)
    return True


# What is read of it


def choosable(workspace: Workspace, reader: Reader) -> ChannelQuerySet:
    """Channels whose messages this reader may have read from Slack, by name; no direct messages."""
    return (
        Channel.objects.visible_to(reader)
        .filter(workspace=workspace, kind__in=(Channel.Kind.PUBLIC, Channel.Kind.PRIVATE))
        .order_by("is_archived", "name", "slack_id")
    )


@transaction.atomic
def choose(
    workspace: Workspace,
    reader: Reader,
    *,
    before: Collection[str],
    after: Collection[str],
    by: User | None,
) -> tuple[int, int]:
    """Follow the channels in ``after`` and no more those in ``before`` alone (Slack ids): only what
    the person changed is changed, so that two choices at a time do not undo each other. Ids that
    the reader does not see are left alone. Returns how many are followed now, and no more."""
    on, off = set(after) - set(before), set(before) - set(after)
    rows = choosable(workspace, reader)
    followed = sum(row.follow(by=by, on=True) for row in rows.filter(slack_id__in=on))
    left = sum(row.follow(by=by, on=False) for row in rows.filter(slack_id__in=off))
    return followed, left
