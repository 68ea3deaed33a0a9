"""Readers: the users and API keys whose access rules filter querysets."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, Self, TypeVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

MEMBERSHIP_LASTS = timedelta(hours=24)

Row = TypeVar("Row", bound=models.Model)


@dataclass(frozen=True)
class Reader:
    """A user, an API key, a person in Slack, all readers of a channel, or "public only".

    A reader without ``user_id`` and ``person_id`` reads public channels if ``is_public``, else nothing.
    With ``key_id`` the reader is an API key of the user; if ``is_narrowed``, it reads only the channels
    that the key names. ``person_id`` is a person without a proven account. With ``channel_id`` the
    reader is all readers of a channel (`Channel.common_reader`). ``prefetched_keys`` are the primary
    keys of the workspaces and channels that `read_once` has read, by the query for them.
    """

    user_id: int | None = None
    is_operator: bool = False
    is_public: bool = False
    now: datetime = field(default_factory=timezone.now)
    key_id: int | None = None
    is_narrowed: bool = False
    person_id: int | None = None
    channel_id: int | None = None
    prefetched_keys: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, user: Any, now: datetime | None = None) -> Self:
        """Return the reader of a signed-in user. An anonymous or inactive user reads nothing."""
        if not user.is_authenticated or not user.is_active:
            return cls(now=now or timezone.now())
        return cls(user.pk, user.is_superuser, now=now or timezone.now())

    @classmethod
    def of_person(cls, person: Any, now: datetime) -> Self:
        """Return the reader of a person whose identity Slack has proven, by a signature.

        With a proven link the person reads as their account, else what they read in Slack.
        """
        if person.user is not None and person.link_valid_until is None:
            return cls.of(person.user, now)
        return cls(person_id=person.pk, now=now)

    @classmethod
    def public(cls, now: datetime | None = None) -> Self:
        """Return a reader of public channels, for bots without an account."""
        return cls(is_public=True, now=now or timezone.now())

    def without_operator_rights(self) -> Self:
        """Return the reader as a person of the team, for texts that leave the hub."""
        return replace(self, is_operator=False, prefetched_keys=())

    @property
    def reads_all_public(self) -> bool:
        return self.is_operator or self.is_public

    @property
    def memberships_since(self) -> datetime:
        """The time before which lists of people and members in a connected workspace are stale."""
        return self.now - MEMBERSHIP_LASTS


# Model → the condition under which a reader may read a row. `audience` fills it: it imports all models.
RULES: dict[type[models.Model], Callable[[Reader], Q]] = {}


@lru_cache(maxsize=64)  # a page needs the same ones many times, with the time of its request
def is_readable(model: type[models.Model], reader: Reader) -> Q:
    """Return the condition under which the reader may read a row of this model."""
    return RULES[model](reader)


# The row of the outer query, for ``Exists``. For the equality alone PostgreSQL may read all rows into
# a hash table, also for a page of twenty.
OUTER_ROW = Q(pk=models.OuterRef("pk"), pk__lte=models.OuterRef("pk"))


class AudienceQuerySet(models.QuerySet[Row], Generic[Row]):
    """The base of querysets whose rows have an audience."""

    def visible_to(self, reader: Reader) -> Self:
        """Filter the rows that the reader may read (docs/rules.md, readers)."""
        return self.filter(is_readable(self.model, reader))
