"""Keys with which an agent reads memories over the API and MCP.

A person who connects an app with OAuth gives it a key. The app has no token of the key itself: it
reads with access tokens, which expire within minutes.
"""

import secrets
from datetime import datetime, timedelta
from typing import Any

from allauth.idp.oidc.models import Client, Token
from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import Reader
from memories.models.access.tokens import token_hashes
from memories.models.access.users import User
from memories.models.access.workspaces import Workspace
from memories.models.context.revisions import Revision
from memories.models.ingest.channels import Channel
from memories.rules.access.oauth import covers, origin_of

SALT = "memories.ApiKey"
USE_IS_NOTED_EVERY = timedelta(minutes=1)
REQUESTS_PER_MINUTE = 120  # of a key for which nobody chose a number


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    @transaction.atomic
    def issue(
        self,
        workspace: Workspace,
        *,
        name: str,
        by: User | None,
        user: User | None = None,
        scopes: list[str] | None = None,
        channels: list[Channel] | None = None,
        expires_at: datetime | None = None,
        requests_per_minute: int = REQUESTS_PER_MINUTE,
        client: Client | None = None,
    ) -> tuple["ApiKey", str]:
        """Return a new key and its token, which is shown once and never stored.

        The key reads what ``user`` reads, or public channels only without one; with ``channels``
        it reads these alone. Raises ValueError for an empty name or an unknown scope.
        """
        scopes = sorted(set(scopes or [ApiKey.Scope.READ]) | {ApiKey.Scope.READ.value})
        if not name.strip() or not set(scopes) <= set(ApiKey.Scope.values):
            raise ValueError("A key has a name, and scopes that exist.")
        lookup, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        key = self.create(
            workspace=workspace,
            name=name.strip()[:80],
            user=user,
            created_by=by,
            scopes=scopes,
            is_narrowed=bool(channels),
            lookup=lookup,
            digest=token_hashes(SALT, secret)[0],
            expires_at=expires_at,
            requests_per_minute=requests_per_minute,
            client=client,
        )
        key.channels.set(channels or [])
        AuditEvent.objects.record(
            "api_key_issue", by=by, workspace=workspace, subject=f"API key {key}"
        )
        return key, f"{key.prefix}_{lookup}_{secret}"

    @transaction.atomic
    def connect(
        self, client: Client, user: User, workspace: Workspace, *, now: datetime, **limits: Any
    ) -> "ApiKey":
        """Give an app a key of the user. It replaces the key that the user gave it before.

        ``limits`` are those of `issue`.
        """
        User.objects.select_for_update().get(pk=user.pk)  # a form may be sent twice
        self.filter(client=client, user=user).revoke(by=user, now=now)
        Token.objects.filter(client=client, user=user).delete()
        key, _ = self.issue(
            workspace, name=client.name, by=user, user=user, client=client, **limits
        )
        return key

    def manageable_by(self, user: User, *, is_admin: bool) -> "ApiKeyQuerySet":
        """Keys that an account may see and revoke: its own, and all of them for an admin."""
        own_keys = Q(user=user) | Q(created_by=user)
        return self.all() if is_admin else self.filter(own_keys)

    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        """Keys that are neither revoked nor expired, of accounts that may sign in.

        Keys of connected apps count only while MEMORYHUB_OAUTH is on.
        """
        keys = self if settings.MEMORYHUB_OAUTH else self.filter(client=None)
        return keys.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now),
            Q(user__isnull=True) | Q(user__is_active=True),
            revoked_at__isnull=True,
        )

    def for_request(self) -> "ApiKeyQuerySet":
        """Keys with their accounts and workspaces, and the `revision` at the same moment."""
        rows = self.select_related("user", "workspace")
        return rows.annotate(**{"revision": Revision.objects.current()})

    def revoke(self, *, by: User | None, now: datetime) -> None:
        """End these keys."""
        for key in self.filter(revoked_at__isnull=True).select_related("workspace"):
            key.revoke(by=by, now=now)

    def find(self, token: str, now: datetime) -> "ApiKey | None":
        """Return the usable key of a token, or None."""
        prefix, _, body = token.partition("_")
        lookup, _, secret = body.partition("_")
        if not (lookup.isascii() and lookup.isalnum() and len(lookup) == 8 and secret):
            return None
        key = self.usable(now).for_request().filter(lookup=lookup).first()
        if key is None or key.prefix != prefix:
            return None
        matches = [
            constant_time_compare(key.digest, token_hash)
            for token_hash in token_hashes(SALT, secret)
        ]
        return key if any(matches) else None

    def find_by_access_token(self, token: str, url: str, now: datetime) -> "ApiKey | None":
        """Return the usable key behind an access token for this address, or None.

        The key has only the scopes that the token has too.
        """
        granted = Token.objects.lookup(Token.Type.ACCESS_TOKEN, token)
        if granted is None or not covers(granted.get_resources(), url):
            return None
        key = self.usable_for(granted, now).for_request().first()
        if key is None or ApiKey.Scope.READ not in granted.get_scopes():
            return None
        key.scopes = [scope for scope in key.scopes if scope in granted.get_scopes()]
        return key

    def usable_for(self, token: Token, now: datetime) -> "ApiKeyQuerySet":
        """The key that the user of a token gave to its app. None for a token without them."""
        if token.client_id is None or token.user_id is None:
            return self.none()
        return self.usable(now).filter(client=token.client_id, user=token.user_id)


class ApiKey(models.Model):
    """What a client may do in a workspace. The token itself is not stored, only an HMAC of it."""

    class Scope(models.TextChoices):
        READ = "read", _("read")
        NOTES = "notes", _("write notes")
        PROPOSE = "propose", _("propose corrections")

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(_("name"), max_length=80)
    user = models.ForeignKey(
        User,
        on_delete=models.CASCADE,
        related_name="api_keys",
        null=True,
        blank=True,
        verbose_name=_("reads as"),
        help_text=_("Without an account, the key reads public channels only."),
    )
    scopes = models.JSONField(_("scopes"), default=list)
    is_narrowed = models.BooleanField(_("limited to channels"), default=False)
    channels = models.ManyToManyField(Channel, related_name="api_keys", blank=True)
    lookup = models.CharField(max_length=8, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    requests_per_minute = models.PositiveIntegerField(
        _("requests per minute"), default=REQUESTS_PER_MINUTE
    )
    client = models.ForeignKey(
        Client,
        on_delete=models.CASCADE,
        related_name="api_keys",
        null=True,
        blank=True,
        verbose_name=_("connected app"),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    revision: int | str | None  # set by `for_request`

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        constraints = [
            models.UniqueConstraint(
                fields=["client", "user"],
                condition=Q(client__isnull=False, revoked_at__isnull=True),
                name="one_key_for_each_app",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}_{self.lookup}…)"

    @property
    def prefix(self) -> str:
        """``mhw`` where a scope lets the key write, else ``mhr``."""
        return "mhr" if self.scopes == [self.Scope.READ] else "mhw"

    @property
    def app_origin(self) -> str:
        """The scheme and host at which a connected app gets its answers, "" for another key."""
        addresses = self.client.get_redirect_uris() if self.client else []
        return ", ".join(sorted({origin_of(address) for address in addresses}))

    def reader(self, now: datetime) -> Reader:
        """Return the reader of the key. An operator's access grants do not extend to keys."""
        limits: dict[str, Any] = {"key_id": self.pk, "is_narrowed": self.is_narrowed}
        if self.user is None:
            return Reader(is_public=True, now=now, **limits)
        return Reader(self.user.pk, self.user.is_superuser, now=now, **limits)

    def mark_used(self, now: datetime) -> None:
        """Store when the key was last used, at most once a minute."""
        if self.last_used_at is None or now - self.last_used_at >= USE_IS_NOTED_EVERY:
            type(self).objects.filter(pk=self.pk).update(last_used_at=now)

    @transaction.atomic
    def revoke(self, *, by: User | None, now: datetime) -> bool:
        """End the key at once and for good. Return False if it had ended before.

        The tokens of a connected app are deleted.
        """
        if not type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=now):
            return False
        if self.client_id is not None:
            Token.objects.filter(client=self.client_id, user=self.user_id).delete()
        AuditEvent.objects.record(
            "api_key_revoke", by=by, workspace=self.workspace, subject=f"API key {self}"
        )
        return True
