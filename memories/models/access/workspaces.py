"""Workspaces, their settings, their members and roles."""

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any

from django.db import models, transaction
from django.db.models import Q, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import MEMBERSHIP_LASTS, AudienceQuerySet, Reader
from memories.models.access.users import User
from memories.rules.access import roles
from memories.rules.health import SYNC_MAX_AGE, sync_max_age
from memories.rules.settings import MemorySettings, parse_setting, parse_settings


class RoleRefused(Exception):
    """A role may not be given or taken. ``why`` is a constant of `rules.access.roles`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class WorkspaceQuerySet(AudienceQuerySet["Workspace"]):
    def with_fresh_people(self, now: datetime) -> "WorkspaceQuerySet":
        """Filter the workspaces whose list of people says who may read.

        An imported workspace keeps the list of its export. In a connected one the list is at most
        a day old, and Slack has not ended the connection since.
        """
        is_live = Q(slack_connection__isnull=True) | Q(slack_connection__state="live")
        is_fresh = Q(listed_at__gte=now - MEMBERSHIP_LASTS) & is_live
        return self.filter(Q(connected_at__isnull=True) | is_fresh)

    def without_other_admins(self, users: Iterable[int]) -> "WorkspaceQuerySet":
        """Filter the workspaces whose only admins are these accounts."""
        admins = Member.objects.filter(role=Member.Role.ADMIN)
        other_admins = admins.filter(user__is_active=True).exclude(user__in=users)
        administered = admins.filter(user__in=users).values("workspace")
        return self.filter(pk__in=administered).exclude(pk__in=other_admins.values("workspace"))

    def due_for_sync(self, now: datetime) -> "WorkspaceQuerySet":
        return self.filter(
            Q(next_sync_at__isnull=True) | Q(next_sync_at__lte=now), connected_at__isnull=False
        )

    def mark_pass_queued(self, now: datetime, lost_after: timedelta) -> bool:
        """Mark that a pass is queued. Returns False if one is, for less than ``lost_after``."""
        not_queued = Q(pass_queued_at=None) | Q(pass_queued_at__lt=now - lost_after)
        due_at = Coalesce("pass_due_at", now, output_field=models.DateTimeField())
        return bool(self.filter(not_queued).update(pass_queued_at=now, pass_due_at=due_at))


class Workspace(models.Model):
    """A workspace as in Slack. ``settings`` holds only values other than the defaults (rule 9)."""

    slug = models.SlugField(_("slug"), max_length=50, unique=True)
    name = models.CharField(_("name"), max_length=200)
    team_id = models.CharField(_("Slack team id"), max_length=32, blank=True)
    domain = models.CharField(
        _("Slack domain"),
        max_length=100,
        blank=True,
        help_text=_("The part before .slack.com. Links to messages use it."),
    )
    settings = models.JSONField(_("settings"), default=dict, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    # Set by the first sync. From then on memberships must be fresh (fail closed).
    connected_at = models.DateTimeField(_("connected to Slack"), null=True, blank=True)
    synced_at = models.DateTimeField(_("last sync"), null=True, blank=True)
    # The time of the next sync; null: as soon as possible.
    next_sync_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The last complete list of people and channels.
    listed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Set while a queued pass has not started. A lost one is queued again, and is due as before.
    pass_queued_at = models.DateTimeField(null=True, blank=True, editable=False)
    pass_due_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

    def __str__(self) -> str:
        return self.name or self.slug

    @cached_property
    def memory_settings(self) -> MemorySettings:
        """The settings, with defaults for unset values."""
        return parse_settings(self.settings)

    @cached_property
    def sync_max_age(self) -> timedelta:
        """How old its last complete sync may be. It is longer with more channels."""
        connection = getattr(self, "slack_connection", None)
        is_slow = connection is not None and connection.slow_plan
        channels = self.channels.followed().filter(bot_is_in=True)
        return sync_max_age(channels.count(), slow=is_slow)

    def is_late(self, age: timedelta) -> bool:
        """Return whether a sync of this age is late. Most ages need no count of channels."""
        return age > SYNC_MAX_AGE and age > self.sync_max_age

    @transaction.atomic
    def change_settings(
        self, given: dict[str, Any], *, by: User | None = None
    ) -> dict[str, tuple[Any, Any]]:
        """Save settings and return ``{key: (before, after)}`` of the changed ones.

        A value equal to the default is not stored, so that a new default applies to it. Raises
        InvalidSetting and saves nothing if a value is invalid.
        """
        read = {key: parse_setting(key, value) for key, value in given.items()}
        self.settings = Workspace.objects.select_for_update().get(pk=self.pk).settings
        self.__dict__.pop("memory_settings", None)
        before = self.memory_settings
        default = MemorySettings()
        merged = {**self.settings, **read}
        self.settings = {key: v for key, v in merged.items() if v != getattr(default, key)}
        self.save(update_fields=["settings"])
        self.__dict__.pop("memory_settings", None)
        changed = {
            key: (getattr(before, key), value)
            for key, value in read.items()
            if getattr(before, key) != value
        }
        if changed:
            AuditEvent.objects.record("settings", by=by, workspace=self, changed=changed)
        return changed

    @transaction.atomic
    def save_details(self, *, name: str, domain: str, by: User) -> bool:
        """Save the name and the Slack domain, with an audit event. Return False if nothing changed."""
        values = {"name": name, "domain": domain}
        old_values = {field: getattr(self, field) for field in values}
        changed = {
            field: [old_values[field], value]
            for field, value in values.items()
            if old_values[field] != value
        }
        if not changed:
            return False
        self.name, self.domain = name, domain
        self.save(update_fields=list(changed))
        AuditEvent.objects.record("workspace", by=by, workspace=self, changed=changed)
        return True

    def save_team_id(self, team_id: str) -> None:
        """Save the Slack team. Exports and tokens of other teams are refused from then on."""
        self.team_id = team_id[:32]
        self.save(update_fields=["team_id"])

    def save_domain(self, domain: str) -> None:
        """Save the part before .slack.com, unless the workspace has one."""
        if domain and not self.domain:
            self.domain = domain[:100]
            self.save(update_fields=["domain"])

    def connect(self, team_id: str, *, name: str, domain: str, now: datetime) -> None:
        """Save the description of the team.

        The first time, memberships begin to age, and Slack's profiles replace all imported ones.
        """
        if self.connected_at is None:
            self.people.update(updated=0)
        self.team_id = team_id
        self.name = name[:200] or self.name
        self.domain = domain[:100] or self.domain
        self.connected_at = self.connected_at or now
        self.save(update_fields=["team_id", "name", "domain", "connected_at"])

    def mark_synced(self, as_of: datetime) -> None:
        """Save the time up to which the messages of all followed channels are stored."""
        self.synced_at = as_of
        self.save(update_fields=["synced_at"])

    def mark_listed(self, now: datetime) -> None:
        self.listed_at = now
        self.save(update_fields=["listed_at"])

    def mark_unlisted(self) -> None:
        """Make the list of people and channels count as stale, so that it gives no access."""
        self.listed_at = None
        self.save(update_fields=["listed_at"])

    def schedule_sync(self, at: datetime) -> None:
        self.next_sync_at = at
        self.save(update_fields=["next_sync_at"])

    def mark_pass_started(self) -> bool:
        """Mark that the queued pass starts, so that another one may be queued. False: none was."""
        queued = Workspace.objects.filter(pk=self.pk, pass_queued_at__isnull=False)
        return bool(queued.update(pass_queued_at=None, pass_due_at=None))

    def synced_until(self, now: datetime) -> datetime | None:
        """Return the time up to which messages are complete, or None before the first sync.

        Later silence in a connected workspace may be messages that are not synced yet, so it ends
        no segment. An imported workspace is complete.
        """
        if self.connected_at is None:
            return now
        return min(now, self.synced_at) if self.synced_at else None

    def zone_for(self, user: User | None) -> tzinfo:
        """Return the time zone for a reader: their own, or the workspace's."""
        return (user and user.zone) or self.memory_settings.zone

    def role_of(self, reader: Reader) -> str:
        """Return the reader's role in the workspace (`Member.Role`), or "" for an outsider."""
        if reader.is_operator:
            return Member.Role.ADMIN
        if reader.person_id is not None:
            person = self.people.filter(pk=reader.person_id).first()
            return person.role if person else ""
        if reader.user_id is None:
            return ""
        members = self.members.filter(user=reader.user_id).values_list("role")
        rows = self.people.filter(user=reader.user_id).annotate(given_role=Subquery(members))
        people: list[Any] = list(rows)
        role = people[0].given_role if people else members.values_list("role", flat=True).first()
        return roles.effective_role(role or "", [person.role for person in people])

    def admin_ids(self) -> list[int]:
        """Return the keys of the accounts with the role of an admin, without operators."""
        rows = self.members.filter(role=Member.Role.ADMIN, user__is_active=True)
        keys = rows.values_list("user", flat=True)
        return [key for key in keys if self.role_of(Reader(key)) == Member.Role.ADMIN]

    @transaction.atomic
    def give_role(self, user: User, role: str, *, by: User | None, **details: str) -> bool:
        """Give an account a role, or ``""`` for its role in Slack, with an audit event.

        ``details`` are added to the event.
        Returns False if the account has this role. Raises `RoleRefused` and changes nothing if the
        role may not be given.
        """
        # Two admins must not take each other's role at the same time.
        Workspace.objects.select_for_update().get(pk=self.pk)
        member = self.members.filter(user=user).first()
        before = member.role if member else ""
        if before == role:
            return False
        slack_roles = [person.role for person in self.people.filter(user=user)]
        error = roles.find_role_error(
            is_self=by == user,
            before=roles.effective_role(before, slack_roles),
            after=roles.effective_role(role, slack_roles),
            other_admins=len({*self.admin_ids()} - {user.pk}),
        )
        if error:
            raise RoleRefused(error)
        if role:
            self.members.update_or_create(user=user, defaults={"role": role})
        else:
            self.members.filter(user=user).delete()
        AuditEvent.objects.record(
            "role",
            by=by,
            workspace=self,
            subject=user.get_username(),
            before=before or None,
            after=role or None,
            **details,
        )
        return True


class Member(models.Model):
    """The role of a user in a workspace. A user with a linked person is a member without a row."""

    class Role(models.TextChoices):
        GUEST = "guest", _("guest")
        MEMBER = "member", _("member (reads)")
        EDITOR = "editor", _("editor")
        ADMIN = "admin", _("workspace admin")

    READING = (Role.MEMBER, Role.EDITOR, Role.ADMIN)
    EDITING = (Role.EDITOR, Role.ADMIN)

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(_("role"), max_length=10, choices=Role, default=Role.MEMBER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="member_once"),
        ]
        verbose_name = _("member")
        verbose_name_plural = _("members")

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"
