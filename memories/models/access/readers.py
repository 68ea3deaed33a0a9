"""Who asks. Every `visible_to(reader)` word starts from here (docs/rules.md, readers)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

if TYPE_CHECKING:
    from memories.models.access.access_grants import AccessGrantQuerySet
    from memories.models.ingest.people import PersonQuerySet

MEMBERSHIP_LASTS = timedelta(hours=24)
FEW = ("Channel", "Workspace")  # of these, and not above MOST, keys may stand in a question
MOST = 500
# Stand in for a reader and their time in SQL that is written once for all who are alike.
NOBODY = -(2**62)
NO_KEY = NOBODY - 1
NEVER = datetime(1970, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@dataclass(frozen=True)
class Reader:
    """A user, or nobody in particular: ``user_id=None`` reads public channels and no more.

    An operator runs everything and reads what is public; private text needs membership. With
    ``key_id`` the reader is an API key of that user; an ``is_narrowed`` one reads only the
    channels that the key names.
    """

    user_id: int | None = None
    is_operator: bool = False
    is_public: bool = False
    now: datetime | None = None
    is_settled: bool = False
    key_id: int | None = None
    is_narrowed: bool = False
    _written: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, user: Any, now: datetime | None = None) -> "Reader":
        """The reader behind a signed-in (or anonymous, who reads nothing) user."""
        if not getattr(user, "is_authenticated", False) or not user.is_active:
            return cls(now=now or timezone.now())
        return cls(user.pk, user.is_superuser, now=now or timezone.now())

    @classmethod
    def public(cls, now: datetime | None = None) -> "Reader":
        """A reader of public channels only: a bot that no person stands behind."""
        return cls(is_public=True, now=now or timezone.now())

    @property
    def reads_all_public(self) -> bool:
        return self.is_operator or self.is_public

    @property
    def memberships_since(self) -> datetime:
        """In a connected workspace, what was confirmed before this of who may read no longer counts."""
        return (self.now or timezone.now()) - MEMBERSHIP_LASTS

    def settled(self) -> "Reader":
        """The same reader for one search: which channels and workspaces they read is asked once. A
        question that holds the rule for it takes PostgreSQL longer to plan than to answer, and lets
        it believe that each row costs as much."""
        return replace(self, is_settled=True)

    def keys(self, word: "Callable[[Reader], QuerySet[Any]]") -> Any:
        """The keys of the rows that a word, as `Channel.objects.visible_to`, gives this reader, for
        ``__in``: a subquery that the database answers anew each time, or, of a settled one, the keys.
        Its SQL is kept: rules within rules take Django longer to put together than the database to
        answer, and a page asks for the same ones many times over."""
        model = word.__self__.model.__name__  # type: ignore[attr-defined]
        name = f"{model}.{word.__name__}"
        if name not in self._written:
            few = _few(word(self)) if self.is_settled and model in FEW else None
            self._written[name] = self._as_sql(word) if few is None else few
        return self._written[name]

    def _as_sql(self, word: "Callable[[Reader], QuerySet[Any]]") -> Any:
        """Of readers alike the SQL is the same, but for who they are and what time it is. A settled
        one's holds keys as well, and is its own."""
        if self.is_settled:
            sql, values = _written(word(self))
        else:
            like = replace(
                self,
                user_id=None if self.user_id is None else NOBODY,
                key_id=None if self.key_id is None else NO_KEY,
                now=NEVER,
            )
            sql, values = _written_once(word, like)
            own_values = dict(zip(like._moving(), self._moving(), strict=True))
            values = tuple(own_values.get(value, value) for value in values)
        return RawSQL(sql, values) if sql else ()  # noqa: S611  as Django wrote it

    def _moving(self) -> tuple[Any, ...]:
        """What a rule's SQL asks with that is this reader's alone."""
        moments = (self.memberships_since, self.now or timezone.now())
        times = map(connection.ops.adapt_datetimefield_value, moments)
        return self.user_id, self.key_id, *times

    def people(self) -> "PersonQuerySet":
        """The Slack people this user is; a person deactivated in Slack opens nothing."""
        from memories.models.ingest.people import Person

        if self.user_id is None:
            return Person.objects.none()
        return Person.objects.filter(user=self.user_id, is_deleted=False)

    def people_who_open(self) -> "PersonQuerySet":
        """Those of them whose channels the reader may read: who is linked by a proof, or by an
        operator's word that has not ended yet."""
        return self.people().with_open_link(self.now or timezone.now())

    def openings(self) -> "AccessGrantQuerySet":
        """What the reader has opened as an operator and may still read."""
        from memories.models.access.access_grants import AccessGrant

        if self.user_id is None or not self.is_operator or self.key_id is not None:
            return AccessGrant.objects.none()
        return AccessGrant.objects.filter(user=self.user_id, until__gt=self.now or timezone.now())

    def left_people(self) -> "PersonQuerySet":
        """Those they were, and who left Slack."""
        from memories.models.ingest.people import Person

        return Person.objects.filter(user=self.user_id, is_deleted=True)

    def narrow_people(self) -> "PersonQuerySet":
        """Those they are or were, of whom Slack says that they do not see all public channels."""
        from memories.models.ingest.people import Person

        return Person.objects.filter(user=self.user_id).restricted() | self.left_people()

    def full_people(self) -> "PersonQuerySet":
        """Those of them who see all public channels: neither guests nor from outside."""
        return self.people().full_members()


def _few(rows: QuerySet[Any]) -> tuple[Any, ...] | None:
    keys = tuple(rows.order_by().values_list("pk", flat=True)[: MOST + 1])
    return keys if len(keys) <= MOST else None


@cache
def _written_once(
    word: Callable[[Reader], QuerySet[Any]], reader: Reader
) -> tuple[str, tuple[Any, ...]]:
    return _written(word(reader))


def _written(rows: QuerySet[Any]) -> tuple[str, tuple[Any, ...]]:
    """The SQL for their keys, and its values; "" for what can have none."""
    try:
        return rows.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:
        return "", ()
