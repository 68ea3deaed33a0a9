"""People and bots of a Slack workspace, and their links to accounts."""

from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import ACCESS_LASTS, User
from memories.models.access.workspaces import Workspace

FORGOTTEN = "forgotten person"  # in place of a name
# How a person was linked to an account. Every way but BY_OPERATOR proves that it is theirs.
BY_OPERATOR, BY_EMAIL, BY_SLACK, IN_DEMO = "", "email", "slack", "demo"
PROOFS = (BY_EMAIL, BY_SLACK, IN_DEMO)


class PersonQuerySet(AudienceQuerySet["Person"]):
    def names(self) -> dict[str, str]:
        """Return display names by Slack id."""
        return dict(self.values_list("slack_id", "name"))

    def joined_names(self) -> str:
        """Return the name of a direct conversation of these people, "" for nobody."""
        return ", ".join(sorted(self.names().values()))[:200]

    def full_members(self) -> "PersonQuerySet":
        """Full members of the team in a list of people. They see all public channels."""
        return self.filter(is_guest=False, is_external=False, is_placeholder=False)

    def restricted(self) -> "PersonQuerySet":
        """Guests, people from outside, and people in no list. They see only channels they are in.

        Bots are in no list either, but read nothing here.
        """
        is_unlisted = Q(is_placeholder=True, is_bot=False)
        return self.filter(Q(is_guest=True) | Q(is_external=True) | is_unlisted)

    def with_open_link(self, now: datetime) -> "PersonQuerySet":
        """People whose link gives access: it is proven, or an operator's link has not expired."""
        return self.filter(Q(link_valid_until__isnull=True) | Q(link_valid_until__gt=now))

    def unproven(self) -> "PersonQuerySet":
        """People whose link to an account rests on an operator, and on no sign-in with Slack yet."""
        return self.filter(link_valid_until__isnull=False, user__isnull=False)

    def from_outside(self) -> "PersonQuerySet":
        """Guests, people from outside, and people that a connected Slack does not list.

        An export may omit people, so a person that it does not list is not from outside.
        """
        unlisted = Q(is_placeholder=True, is_bot=False, workspace__connected_at__isnull=False)
        return self.filter(Q(is_guest=True) | Q(is_external=True) | unlisted)

    def who_may_sign_in(self) -> "PersonQuerySet":
        """Active members and guests of the team itself."""
        return self.filter(
            is_bot=False,
            is_deleted=False,
            is_placeholder=False,
            is_external=False,
            forgotten_at__isnull=True,
        )


class Person(models.Model):
    """A Slack identity (U…, W…, or a bot's B…). One human may have two, in shared channels.

    ``is_placeholder``: the person is known as an author or member, but from no list of people.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="people")
    slack_id = models.CharField(_("Slack id"), max_length=32)
    name = models.CharField(_("display name"), max_length=200)
    real_name = models.CharField(_("real name"), max_length=200, blank=True)
    email = models.EmailField(_("e-mail"), blank=True)
    is_bot = models.BooleanField(_("bot"), default=False)
    is_guest = models.BooleanField(_("guest"), default=False)
    is_external = models.BooleanField(_("external"), default=False)
    is_deleted = models.BooleanField(_("deactivated"), default=False)
    is_placeholder = models.BooleanField(_("not in any member list"), default=False)
    # Slack's time of this profile, in seconds since 1970. An older export does not change it.
    updated = models.BigIntegerField(default=0, editable=False)
    # None of their messages is a source for memories.
    is_revoked = models.BooleanField(_("excluded as a source"), default=False)
    # Their messages from before were forgotten then, and are not stored again.
    forgotten_at = models.DateTimeField(_("forgotten"), null=True, blank=True)
    user = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        related_name="people",
        null=True,
        blank=True,
        help_text=_("The account that can read what this person can read in Slack."),
    )
    # A BY_EMAIL link ends when the verified address changes. A BY_OPERATOR link does not.
    linked_by = models.CharField(max_length=10, blank=True, editable=False)
    # An unproven link gives access to their channels until then; null: it is proven.
    link_valid_until = models.DateTimeField(
        _("access to private channels until"), null=True, blank=True, editable=False
    )

    objects = PersonQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slack_id"], name="person_once"),
            models.CheckConstraint(
                condition=Q(user__isnull=True)
                | Q(linked_by__in=PROOFS)
                | Q(link_valid_until__isnull=False),
                name="person_link_proven_or_ends",
            ),
        ]
        verbose_name = _("person")
        verbose_name_plural = _("people")

    def __str__(self) -> str:
        return self.name

    @property
    def role(self) -> str:
        """The role in Slack, as in `rules.access.roles`."""
        if self.is_deleted:
            return ""
        return "guest" if self.is_guest or self.is_external or self.is_placeholder else "member"

    @property
    def is_in_private(self) -> bool:
        return self.memberships.exclude(channel__kind="public").exists()

    @transaction.atomic
    def link(
        self,
        user: User | None,
        how: str,
        was: User | None = None,
        *,
        by: User | None = None,
        reason: str = "",
    ) -> bool:
        """Link the person to an account, or to none, with an audit event.

        Return False and change nothing unless the linked account is ``was``. ``how`` is one of
        `PROOFS` or BY_OPERATOR. An operator's link gives access to private channels for an hour,
        and only with a ``reason``. It does not replace a proof for the same account. An e-mail
        address proves nothing in a workspace that is not connected, because the author of an export
        can write any address into it. Raise ValueError when ``by`` is no operator.
        """
        if how == BY_OPERATOR and by is not None and not by.is_operator:
            raise ValueError("Only an operator links a person to an account.")
        is_listed = self.workspace.connected_at is not None
        is_proof = how in PROOFS and (how != BY_EMAIL or is_listed)
        if user == was and (user is None or self.link_valid_until is None):
            return False
        reason, now = reason.strip()[:200], timezone.now()
        link_valid_until = None
        if user is not None and not is_proof:
            link_valid_until = now + ACCESS_LASTS if reason else now
        linked_by = how if user else ""
        rows = Person.objects.filter(pk=self.pk, user=was)
        if not rows.update(user=user, linked_by=linked_by, link_valid_until=link_valid_until):
            return False
        self.user, self.linked_by, self.link_valid_until = user, linked_by, link_valid_until
        details: dict[str, Any] = {}
        if link_valid_until and reason:
            details = {"reason": reason, "until": link_valid_until.isoformat()}
        AuditEvent.objects.record(
            "person_link",
            by=by if how == BY_OPERATOR else user,
            workspace=self.workspace,
            subject=self.slack_id,
            account=user.get_username() if user else None,
            how=how or "operator",
            **details,
        )
        return True

    def forget(self, now: datetime) -> None:
        """Delete all data of the person but the id. No list of people sets it again."""
        self.forgotten_at = now
        self.name, self.real_name, self.email = FORGOTTEN, "", ""
        self.user, self.link_valid_until = None, None
        fields = ["forgotten_at", "name", "real_name", "email", "user", "link_valid_until"]
        self.save(update_fields=fields)
