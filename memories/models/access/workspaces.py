"""A team's Slack workspace, its settings and its members."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db import models, transaction
from django.db.models import Q, Subquery
from django.utils.translation import gettext_lazy as _

from memories.models.access.readers import MEMBERSHIP_LASTS, AudienceQuerySet, Reader
from memories.models.access.users import User
from memories.rules.access import roles
from memories.rules.settings import MemorySettings, parse_setting, parse_settings


class RoleRefused(Exception):
    """A role that is not given or taken; ``why`` is a word of `rules.roles`."""

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

    def left_without_admin(self, users: Iterable[int]) -> "WorkspaceQuerySet":
        """Those that would have no admin any more without these accounts."""
        admins = Member.objects.filter(role=Member.Role.ADMIN)
        others = admins.filter(user__is_active=True).exclude(user__in=users)
        had = admins.filter(user__in=users).values("workspace")
        return self.filter(pk__in=had).exclude(pk__in=others.values("workspace"))

    def to_sync(self, now: datetime) -> "WorkspaceQuerySet":
        """Connected, and their turn has come."""
        return self.filter(
            Q(sync_again_at__isnull=True) | Q(sync_again_at__lte=now), connected_at__isnull=False
        )

    def offer(self, now: datetime, again_after: timedelta) -> bool:
        """Note that a pass is being queued. False: one is, and not so long ago that it may be lost."""
        not_offered = Q(offered_at=None) | Q(offered_at__lt=now - again_after)
        return bool(self.filter(not_offered).update(offered_at=now))


class Workspace(models.Model):
    """As in Slack. ``settings`` holds only what differs from the defaults of rule 9."""

    slug = models.SlugField(_("slug"), max_length=50, unique=True)
    name = models.CharField(_("name"), max_length=200)
    team_id = models.CharField(_("Slack team id"), max_length=32, blank=True)
    domain = models.CharField(
        _("Slack domain"),
        max_length=100,
        blank=True,
        help_text=_("The part before .slack.com; links to messages are made with it."),
    )
    settings = models.JSONField(_("settings"), default=dict, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    # Set by the first sync: from then on memberships must be fresh to count (fail closed).
    connected_at = models.DateTimeField(_("connected to Slack"), null=True, blank=True)
    synced_at = models.DateTimeField(_("last sync"), null=True, blank=True)
    # The worker looks into Slack again then; null: at the next opportunity.
    sync_again_at = models.DateTimeField(null=True, blank=True, editable=False)
    # People and channels were last listed whole.
    listed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # A pass was queued and has not begun yet.
    offered_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

    def __str__(self) -> str:
        return self.name or self.slug

    @cached_property
    def memory_settings(self) -> MemorySettings:
        """The one accessor of settings; unset means default."""
        return parse_settings(self.settings)

    @transaction.atomic
    def change_settings(
        self, given: dict[str, Any], *, by: User | None = None
    ) -> dict[str, tuple[Any, Any]]:
        """Save validated settings; returns ``{key: (before, after)}`` of what changed.

        A value equal to the default is forgotten, so that a later default reaches it. Raises
        InvalidSetting and saves nothing when any of them is wrong.
        """
        from memories.models.access.audit import AuditEvent

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

    def join_team(self, team_id: str) -> None:
        """Learn whose Slack this is; another team's export or token is refused from then on."""
        self.team_id = team_id[:32]
        self.save(update_fields=["team_id"])

    def learn_domain(self, domain: str) -> None:
        """Take over the part before .slack.com, unless it is known."""
        if domain and not self.domain:
            self.domain = domain[:100]
            self.save(update_fields=["domain"])

    def connect(self, team_id: str, *, name: str, domain: str, now: datetime) -> None:
        """Take over what Slack says of the team; the first time, memberships begin to age."""
        self.team_id = team_id
        self.name = name[:200] or self.name
        self.domain = domain[:100] or self.domain
        self.connected_at = self.connected_at or now
        self.save(update_fields=["team_id", "name", "domain", "connected_at"])

    def has_been_synced(self, as_of: datetime) -> None:
        """All channels that are read are known up to here."""
        self.synced_at = as_of
        self.save(update_fields=["synced_at"])

    def has_been_listed(self, now: datetime) -> None:
        self.listed_at = now
        self.save(update_fields=["listed_at"])

    def must_be_listed_anew(self) -> None:
        """What was known of people and channels counts no more: nobody reads by it."""
        self.listed_at = None
        self.save(update_fields=["listed_at"])

    def sync_again(self, at: datetime) -> None:
        self.sync_again_at = at
        self.save(update_fields=["sync_again_at"])

    def take_up(self) -> bool:
        """The pass begins: what comes in from now on needs another one. False: it began already."""
        offered = Workspace.objects.filter(pk=self.pk, offered_at__isnull=False)
        return bool(offered.update(offered_at=None))

    def known_until(self, now: datetime) -> datetime | None:
        """How far the conversations are known: a connected workspace's to its last sync, so that
        no pause is taken for the end of a talk that was only not read yet. None: not at all."""
        if self.connected_at is None:
            return now
        return min(now, self.synced_at) if self.synced_at else None

    def role_of(self, reader: Reader) -> str:
        """The reader's role here: Member.Role's word, or "" for an outsider."""
        if reader.is_operator:
            return Member.Role.ADMIN
        if reader.user_id is None:
            return ""
        given = self.members.filter(user=reader.user_id).values_list("role")
        rows = self.people.filter(user=reader.user_id).annotate(given=Subquery(given))
        people: list[Any] = list(rows)
        role = people[0].given if people else given.values_list("role", flat=True).first()
        return roles.in_effect(role or "", [person.role for person in people])

    def admins(self) -> list[int]:
        """The accounts that can administer it, operators aside."""
        rows = self.members.filter(role=Member.Role.ADMIN, user__is_active=True)
        keys = rows.values_list("user", flat=True)
        return [key for key in keys if self.role_of(Reader(key)) == Member.Role.ADMIN]

    @transaction.atomic
    def give_role(self, user: User, role: str, *, by: User | None) -> bool:
        """Let the account be this here; "": no more than what Slack says. On the record. False: it
        is that already. Raises `RoleRefused` and changes nothing."""
        from memories.models.access.audit import AuditEvent

        # One at a time: two admins must not take each other's role at the same moment.
        Workspace.objects.select_for_update().get(pk=self.pk)
        member = self.members.filter(user=user).first()
        before = member.role if member else ""
        if before == role:
            return False
        by_slack = [person.role for person in self.people.filter(user=user)]
        why = roles.refusal(
            is_self=by == user,
            before=roles.in_effect(before, by_slack),
            after=roles.in_effect(role, by_slack),
            other_admins=len({*self.admins()} - {user.pk}),
        )
        if why:
            raise RoleRefused(why)
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
        )
        return True


class Member(models.Model):
    """A user in a workspace with a role. People linked to a user are members without a row."""

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
