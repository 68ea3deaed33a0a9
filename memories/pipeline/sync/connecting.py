"""The connection of a workspace to Slack: its token, the check of it, and the followed channels."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memories.models import Channel, Reader, SlackConnection, User, Workspace
from memories.models.ingest.channels import ChannelQuerySet
from memories.pipeline.sync.slack_budget import SharedLimiter
from memories.rules.safety.encryption import DecryptionError
from memories.rules.sync import scopes
from memories.rules.sync.scopes import Feature
from memories.slack.web import Identity, SlackClient, SlackError
from memoryhub.env import PROGRAM

_Text = str | Promise
State = SlackConnection.State

_STOPPED = {State.REVOKED: "token_revoked", State.UNINSTALLED: "account_inactive"}
# Error codes of Slack that mean a rejected token. Any other error may be temporary.
_REJECTIONS = {
    "account_inactive": State.UNINSTALLED,
    "invalid_auth": State.REVOKED,
    "token_expired": State.REVOKED,
    "token_revoked": State.REVOKED,
}

# Texts for error codes. Other codes use Slack's own message.
ERROR_TEXTS: dict[str, _Text] = {
    "no_token": format_lazy(
        _(
            "No token is set. An operator can set one in the admin or with "
            "{program} slack_token set, or set SLACK_BOT_TOKEN."
        ),
        program=PROGRAM,
    ),
    "no_key": _(
        "No key in MEMORYHUB_KEYS can decrypt the stored token. Provide the key it was "
        "encrypted with, or set the token again."
    ),
    "invalid_auth": _("Slack does not recognize this token. Copy it again from the app page."),
    "token_revoked": _("The token was revoked. Install the app again and set the new token."),
    "token_expired": _(
        "The token has expired. Turn off token rotation in the app and set the new token."
    ),
    "account_inactive": _(
        "The app was removed from Slack. Install it again and set the new token."
    ),
    "unreachable": _("Slack cannot be reached. Test again in a minute."),
    "ratelimited": _("Slack is limiting requests. Test again in a minute."),
    "untested": _("Not tested yet."),
    "not_in_channel": _("The app is not in the channel. Invite it there with /invite."),
    "is_archived": _("The channel is archived."),
    "missing_scope": _("The app lacks a scope. An admin can add it with a new manifest."),
    "messages_tab_disabled": _(
        "The app takes no direct messages. An admin can change this with a new manifest."
    ),
}

# What does not work without the scope of a feature.
FEATURE_NAMES: dict[Feature, _Text] = {
    Feature.CHANNELS: _("the list of public channels and their members"),
    Feature.MESSAGES: _("messages and threads of public channels"),
    Feature.PEOPLE: _("the names of people"),
    Feature.PRIVATE_CHANNELS: _("the list of private channels and their members"),
    Feature.PRIVATE_MESSAGES: _("messages and threads of private channels"),
    Feature.EMAILS: _("e-mail addresses, to link people to accounts"),
    Feature.COMMANDS: _("the command /memory and the message shortcuts"),
    Feature.REACTIONS: _("notes by the reaction :memo:"),
    Feature.ANSWERS: _("digests, and answers to a reaction"),
    Feature.LINKS: _("links to this hub in messages"),
    Feature.PREVIEWS: _("previews of these links"),
    Feature.SLACKBOT: _("answers of Slackbot"),
}
# Settings that need these scopes.
_SETTINGS = {scope: setting for setting, needed in scopes.FOR_SETTING.items() for scope in needed}


def error_text(code: str) -> str:
    """Return an error code of Slack in words."""
    return str(ERROR_TEXTS.get(code) or f"Slack: {code}.")


class TokenSource(StrEnum):
    """Where the token of a workspace comes from."""

    STORED = "kept"  # encrypted in the database
    ENVIRONMENT = "environment"
    NONE = "none"


def token_source(workspace: Workspace) -> TokenSource:
    if SlackConnection.objects.with_token().filter(workspace=workspace).exists():
        return TokenSource.STORED
    return TokenSource.ENVIRONMENT if settings.SLACK_BOT_TOKEN else TokenSource.NONE


def client_for(workspace: Workspace, *, allow_stopped: bool = False, **options: Any) -> SlackClient:
    """Return a client with the stored token of this workspace, or with SLACK_BOT_TOKEN.

    Raises `SlackError` if there is no token, if no key decrypts it, or if Slack has rejected it.
    With ``allow_stopped`` a rejected token is tried again. ``options`` are those of `SlackClient`.
    """
    connection = SlackConnection.objects.filter(workspace=workspace).first()
    try:
        stored = connection.decrypt_token() if connection else ""
    except DecryptionError as error:
        raise SlackError("no_key", str(ERROR_TEXTS["no_key"]), permanent=True) from error
    token = stored or settings.SLACK_BOT_TOKEN
    if token and (connection is None or not connection.has_token):
        connection = connection or SlackConnection.objects.of(workspace)
        connection.use_environment_token(token)
    if connection and not connection.is_live and not allow_stopped:
        code = _STOPPED[State(connection.state)]
        raise SlackError(code, str(ERROR_TEXTS[code]), permanent=True)
    defaults: dict[str, Any] = {
        "limiter": SharedLimiter(token),
        "slow_plan": connection is not None and connection.slow_plan,
    }
    return SlackClient(token, settings.SLACK_BASE_URL, **defaults | options)


def disconnect_if_rejected(
    workspace: Workspace, client: SlackClient, error: SlackError, now: datetime
) -> None:
    """Stop the connection if the error means that Slack rejects the client's token.

    Do nothing for other errors, and if the connection has another token by now.
    """
    if error.code not in _REJECTIONS:
        return
    connection = SlackConnection.objects.of(workspace)
    if connection.token_end in ("", client.token_end):
        connection.stop(_REJECTIONS[error.code], error.message, now)


def has_usable_token(workspace: Workspace) -> bool:
    """Return if there is a token that Slack has not rejected. Makes no call."""
    try:
        client_for(workspace)
    except SlackError:
        return False
    return True


# Check of the connection


@dataclass(frozen=True)
class MissingScope:
    """A required scope that the app lacks."""

    scope: str
    feature: Feature

    @property
    def effect(self) -> _Text:
        return FEATURE_NAMES[self.feature]

    @property
    def remedy(self) -> str:
        setting = _SETTINGS.get(self.scope)
        if setting is None:
            return _(
                "Add the scope %(scope)s to the app (OAuth & Permissions, Bot Token Scopes) and"
                " install it again."
            ) % {"scope": self.scope}
        return _(
            "Add the scope %(scope)s to the app (OAuth & Permissions, Bot Token Scopes) and "
            "install it again, or turn off “%(setting)s”."
        ) % {"scope": self.scope, "setting": setting}


@dataclass(frozen=True)
class Findings:
    """The result of a check. ``code`` and ``error``, its sentence, say what stops everything.

    Both are "" if nothing does. ``scopes`` is None if Slack did not report them.
    """

    workspace: str
    source: TokenSource
    token_end: str = ""
    code: str = ""
    error: _Text = ""
    identity: Identity | None = None
    scopes: tuple[str, ...] | None = None
    missing: tuple[MissingScope, ...] = ()
    surplus: tuple[str, ...] = ()
    slow_plan: bool = False
    notes: tuple[_Text, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Return if everything that the settings of the workspace need can be read."""
        return not self.code and not self.missing

    def as_json(self) -> dict[str, Any]:
        identity = self.identity
        return {
            "workspace": self.workspace,
            "ok": self.is_ok,
            "token": {"source": self.source.value, "end": self.token_end},
            "code": self.code,
            "error": str(self.error),
            "team_id": identity.team_id if identity else "",
            "team_name": identity.team_name if identity else "",
            "bot_id": identity.bot_id if identity else "",
            "scopes": None if self.scopes is None else list(self.scopes),
            "missing": [
                {"scope": missing.scope, "off": str(missing.effect), "fix": str(missing.remedy)}
                for missing in self.missing
            ],
            "surplus": list(self.surplus),
            "slow_plan": self.slow_plan,
            "notes": [str(note) for note in self.notes],
        }


def check_connection(workspace: Workspace, now: datetime, **options: Any) -> Findings:
    """Check the token with one call to Slack, even if Slack rejected it before.

    Errors are part of the findings. Call it outside of transactions.
    """
    try:
        client = client_for(workspace, allow_stopped=True, **options)
    except SlackError as error:
        return Findings(
            workspace.slug,
            token_source(workspace),
            code=error.code,
            error=ERROR_TEXTS.get(error.code, error.message),
        )
    return check_client(workspace, client, now)


def check_client(workspace: Workspace, client: SlackClient, now: datetime) -> Findings:
    """Compare the scopes of the token with the settings, and save the result."""
    connection = SlackConnection.objects.of(workspace)
    source = token_source(workspace)

    def findings(**values: Any) -> Findings:
        return Findings(workspace.slug, source, token_end=connection.token_end, **values)

    try:
        identity = client.identity()
    except SlackError as error:
        disconnect_if_rejected(workspace, client, error, now)
        return findings(code=error.code, error=ERROR_TEXTS.get(error.code, error.message))
    if token_error := find_token_error(workspace, identity):
        code, error_text = token_error
        connection.record_trouble(str(error_text), now)
        return findings(code=code, error=error_text, identity=identity)
    if client.scopes is None:
        error_text = _("Slack did not list the scopes of the token. Test again.")
        return findings(code="no_scopes", error=error_text, identity=identity)
    connection.record_check(
        scopes=client.scopes, bot_id=identity.bot_id, app_id=identity.app_id, now=now
    )
    return findings(identity=identity, **_scope_findings(connection, workspace))


def last_check(workspace: Workspace) -> Findings:
    """Return the result of the last check, for the current settings. Makes no call."""
    source = token_source(workspace)
    connection = SlackConnection.objects.filter(workspace=workspace).first()
    end = settings.SLACK_BOT_TOKEN[-4:] if source is TokenSource.ENVIRONMENT else None
    if source is TokenSource.NONE or connection is None or end not in (None, connection.token_end):
        code = "no_token" if source is TokenSource.NONE else "untested"
        return Findings(workspace.slug, source, end or "", code=code, error=ERROR_TEXTS[code])
    values: dict[str, Any]
    if not connection.is_live:
        code = _STOPPED[State(connection.state)]
        values = {"code": code, "error": ERROR_TEXTS[code]}
    elif connection.trouble:
        values = {"code": "refused", "error": connection.trouble}
    elif connection.checked_at is None:
        values = {"code": "untested", "error": ERROR_TEXTS["untested"]}
    else:
        values = _scope_findings(connection, workspace)
    return Findings(workspace.slug, source, token_end=connection.token_end, **values)


def _scope_findings(connection: SlackConnection, workspace: Workspace) -> dict[str, Any]:
    """Compare the scopes of the last check with the scopes that the settings need."""
    missing, surplus = scopes.compare_scopes(connection.scopes, workspace.memory_settings)
    return {
        "scopes": tuple(connection.scopes),
        "missing": tuple(MissingScope(scope, feature) for scope, feature in missing.items()),
        "surplus": tuple(surplus),
        "slow_plan": connection.slow_plan,
        "notes": tuple(_notes(surplus, slow_plan=connection.slow_plan)),
    }


def find_token_error(workspace: Workspace, identity: Identity) -> tuple[str, _Text] | None:
    """Return code and text if a working token may not be used for this workspace."""
    if not identity.team_id:
        return "malformed", _("The reply is not from Slack: it names no team.")
    if workspace.team_id and workspace.team_id != identity.team_id:
        sentence = _(
            "The token belongs to the Slack team %(theirs)s, but this workspace is %(ours)s."
        )
        return "wrong_team", sentence % {"theirs": identity.team_id, "ours": workspace.team_id}
    if not identity.bot_id:
        return "not_a_bot", _(
            "This is a user token. It reads everything that this user can read. Use the bot "
            "token (xoxb-…) of the app."
        )
    return None


def _notes(surplus: Collection[str], *, slow_plan: bool) -> list[_Text]:
    notes: list[_Text] = []
    if surplus:
        notes.append(
            _("The app has more scopes than it needs. You can remove: %(scopes)s.")
            % {"scopes": ", ".join(surplus)}
        )
    if slow_plan:
        notes.append(
            _(
                "Slack limits this app to 15 messages per minute. An app that you create from the "
                "manifest for your own workspace has no such limit."
            )
        )
    return notes


def connect(workspace: Workspace, findings: Findings, now: datetime) -> bool:
    """Connect the workspace to the team of the token, so that the worker starts to sync.

    Return False if the check failed.
    """
    identity = findings.identity
    if not findings.is_ok or identity is None:
        return False
    workspace.connect(identity.team_id, name=identity.team_name, domain=identity.domain, now=now)
    return True


# Followed channels


def selectable_channels(workspace: Workspace, reader: Reader) -> ChannelQuerySet:
    """Return the channels that this reader may follow, by name. No direct messages."""
    return (
        Channel.objects.visible_to(reader)
        .filter(workspace=workspace, kind__in=(Channel.Kind.PUBLIC, Channel.Kind.PRIVATE))
        .order_by("is_archived", "name", "slack_id")
    )


@transaction.atomic
def update_followed(
    workspace: Workspace,
    reader: Reader,
    *,
    before: Collection[str],
    after: Collection[str],
    by: User | None,
) -> tuple[int, int]:
    """Follow channels that are only in ``after``, and unfollow those only in ``before`` (Slack ids).

    Other channels stay as they are, so that two forms at a time do not undo each other. So do
    channels that the reader cannot see. Return the numbers of followed and unfollowed channels.
    """
    on, off = set(after) - set(before), set(before) - set(after)
    rows = selectable_channels(workspace, reader)
    followed = sum(row.follow(by=by, on=True) for row in rows.filter(slack_id__in=on))
    unfollowed = sum(row.follow(by=by, on=False) for row in rows.filter(slack_id__in=off))
    return followed, unfollowed
