"""Raw people and channels → rows. Import and sync store through here.

Everything may be read twice, in any order, and stopped anywhere: each batch is one transaction,
and what a row already knows better is left alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from django.db import transaction

from memories.models import Channel, ChannelMember, Person, Workspace
from memories.pipeline.access import audience
from memories.pipeline.access.linking import link_people
from memories.rules.ingest.outcomes import (
    DUPLICATE,
    STORED,
    UPDATED,
    ObjectType,
    Outcome,
    Tally,
    skipped,
)
from memories.rules.ingest.slack_objects import (
    SLACKBOT,
    ChannelIn,
    PersonIn,
    parse_channel,
    parse_person,
)
from memories.rules.redaction.shingles import MARK

PEOPLE_IN_A_BATCH = 500
CHANNELS_IN_A_BATCH = 50

_PERSON_FIELDS = (
    *("name", "real_name", "email", "updated"),
    *("is_bot", "is_guest", "is_external", "is_deleted"),
)
_NARROWING = ("is_guest", "is_external", "is_deleted")
_WORDS = ("topic", "purpose")
_CHANNEL_FIELDS = ("name", "is_archived", "is_shared", *_WORDS)
_T = TypeVar("_T")


def store_people(workspace: Workspace, raws: Iterable[object], *, live: bool = False) -> Tally:
    """People as they are now; one known from a later profile (``updated``) stays as it is.

    Of a workspace that is connected live no e-mail addresses are kept unless it wants them, and
    there only ``live`` objects, those that Slack answers now, make somebody a full member, again or
    at all: whom nothing else names stays a placeholder.
    """
    with_emails = workspace.connected_at is None or workspace.memory_settings.read_emails
    tally = Tally()
    for batch in _batches(raws, PEOPLE_IN_A_BATCH):
        tally.count_seen(ObjectType.PERSON, len(batch))
        profiles: list[PersonIn] = []
        for raw in batch:
            read = parse_person(raw, workspace.team_id)
            if isinstance(read, Outcome):
                tally.count_outcome(ObjectType.PERSON, read)
            else:
                profiles.append(read if with_emails else replace(read, email=""))
        with transaction.atomic():
            for outcome in _keep_people(workspace, profiles, live=live):
                tally.count_outcome(ObjectType.PERSON, outcome)
    link_people(workspace)
    return tally


def _only_narrows(workspace: Workspace, *, live: bool) -> bool:
    """Where Slack can be asked, only its own lists open anything: exports and events may be old."""
    return not live and workspace.connected_at is not None


def _keep_people(
    workspace: Workspace, profiles: Sequence[PersonIn], *, live: bool
) -> list[Outcome]:
    only_narrows = _only_narrows(workspace, live=live)
    ids = [profile.slack_id for profile in profiles]
    rows = {row.slack_id: row for row in workspace.people.filter(slack_id__in=ids)}
    new: list[Person] = []
    changed: dict[str, Person] = {}
    outcomes = []
    for profile in profiles:
        row = rows.get(profile.slack_id)
        values = {name: getattr(profile, name) for name in _PERSON_FIELDS}
        if profile.is_guest is None:  # who was a guest stays one until Slack says otherwise
            values["is_guest"] = row is not None and row.is_guest
        if only_narrows and (row is None or row.email != profile.email):
            values["email"] = ""  # an address links an account
        if row is None:
            row = Person(workspace=workspace, slack_id=profile.slack_id, **values)
            row.is_placeholder = only_narrows
            rows[profile.slack_id] = row
            new.append(row)
            outcomes.append(STORED)
            continue
        if row.forgotten_at is not None:
            outcomes.append(skipped("forgotten"))
            continue
        before = {name: getattr(row, name) for name in _PERSON_FIELDS}
        if only_narrows:
            values |= {name: values[name] or before[name] for name in _NARROWING}
        values["updated"] = profile.updated or row.updated
        older = 0 < profile.updated < row.updated
        completes = row.is_placeholder and not only_narrows
        if older or (before == values and not completes):
            outcomes.append(DUPLICATE)
            continue
        outcomes.append(STORED if completes else UPDATED)
        row.is_placeholder = row.is_placeholder and only_narrows
        for name, value in values.items():
            setattr(row, name, value)
        if row.pk:
            changed[profile.slack_id] = row
    Person.objects.bulk_create(new)
    Person.objects.bulk_update(
        changed.values(), [*_PERSON_FIELDS, "is_placeholder"], batch_size=100
    )
    return outcomes


def demote_unlisted_people(workspace: Workspace, named: Collection[str]) -> int:
    """Slack's list names everybody, also who was deactivated. Whom a whole one leaves out is in no
    list until one names them: it may have been cut. How many these were."""
    full = workspace.people.full_members().filter(is_bot=False, is_deleted=False)
    unnamed = [pk for pk, slack_id in full.values_list("pk", "slack_id") if slack_id not in named]
    for keys in _batches(unnamed, PEOPLE_IN_A_BATCH):
        workspace.people.filter(pk__in=keys).update(is_placeholder=True)
    return len(unnamed)


def people_by_id(
    workspace: Workspace, authors: Mapping[str, tuple[str, str]], row_ids: dict[str, int]
) -> None:
    """Complete ``known`` (Slack id → row id) for ``wanted``: Slack id → (name or "", team or "").

    Who is in no list of people gets a placeholder; the list that has them completes it.
    """
    missing = [slack_id for slack_id in authors if slack_id not in row_ids]
    if not missing:
        return
    rows = workspace.people.filter(slack_id__in=missing).values_list("slack_id", "pk")
    row_ids.update(rows)
    new = [
        Person(
            workspace=workspace,
            slack_id=slack_id,
            name="Slackbot" if slack_id == SLACKBOT else authors[slack_id][0] or slack_id,
            is_bot=slack_id == SLACKBOT or slack_id.startswith("B"),
            is_external=_is_elsewhere(workspace, authors[slack_id][1]),
            is_placeholder=True,
        )
        for slack_id in missing
        if slack_id not in row_ids
    ]
    if new:
        Person.objects.bulk_create(new, ignore_conflicts=True)
        made = [row.slack_id for row in new]
        rows = workspace.people.filter(slack_id__in=made).values_list("slack_id", "pk")
        row_ids.update(rows)


def _is_elsewhere(workspace: Workspace, team: str) -> bool:
    return bool(team and workspace.team_id and team != workspace.team_id)


def store_channels(
    workspace: Workspace,
    raws: Iterable[tuple[object, str]],
    *,
    known_at: datetime,
    live: bool = False,
    direct: bool = False,
    admits: bool = True,
) -> Tally:
    """Channels with what their source calls them: public, private, im or mpim (only if ``direct``).

    ``known_at``: the moment that the objects describe; one that tells of an earlier moment than
    the row's changes nothing. Only ``live`` objects, those that Slack answers now, may turn a
    private channel public, or bring a new one to a connected workspace that is public at once: an
    export may be older than the day it became private. No other object lets anybody in there.
    ``admits``: whether a list of members may let people into a private channel that is known.
    """
    tally = Tally()
    for batch in _batches(raws, CHANNELS_IN_A_BATCH):
        tally.count_seen(ObjectType.CHANNEL, len(batch))
        with transaction.atomic():
            for raw, kind in batch:
                read = parse_channel(raw, kind, direct=direct)
                if not isinstance(read, Outcome):
                    read = _keep_channel(workspace, read, known_at, live=live, admits=admits)
                tally.count_outcome(ObjectType.CHANNEL, read)
    return tally


def _keep_channel(
    workspace: Workspace, incoming: ChannelIn, known_at: datetime, *, live: bool, admits: bool
) -> Outcome:
    only_narrows = _only_narrows(workspace, live=live)
    values: dict[str, Any] = {name: getattr(incoming, name) for name in _CHANNEL_FIELDS}
    if incoming.kind == Channel.Kind.IM:
        values["name"] = _names_of(workspace, incoming)
    row = workspace.channels.filter(slack_id=incoming.slack_id).first()
    if row is None:
        values["kind"] = incoming.kind
        if only_narrows and incoming.kind == Channel.Kind.PUBLIC:
            # Public once: until Slack itself lists it as such it may have been closed since.
            values |= {"kind": Channel.Kind.PRIVATE, "private_since": known_at}
        row = workspace.channels.create(slack_id=incoming.slack_id, **values)
        outcome, admits = STORED, True
    elif row.members_known_at and known_at < row.members_known_at:
        return DUPLICATE
    else:
        # Slack was asked before an event told of fewer readers: the event is the later word.
        is_older = row.narrowed_at is not None and known_at <= row.narrowed_at
        if (live and not is_older) or row.is_public:
            values["kind"] = incoming.kind
        if is_older or only_narrows:
            values["is_shared"] = incoming.is_shared or row.is_shared
        values |= _words_that_stay(row, live=live, only_narrows=only_narrows)
        was, was_shared = row.kind, row.is_shared
        outcome = UPDATED if row.describe(values) else DUPLICATE
        audience.follow(row, was, was_shared=was_shared)
    if incoming.members is not None and set_members(
        row, incoming.members, known_at, live=live, admits=admits or row.is_public
    ):
        outcome = outcome if outcome is STORED else UPDATED
    return outcome


def _words_that_stay(row: Channel, *, live: bool, only_narrows: bool) -> dict[str, str]:
    """Its topic and purpose, where an export may bring back what was forgotten or taken out of them
    since. Of a channel that was forgotten Slack itself tells neither."""
    if row.forgotten_at is not None:
        return dict.fromkeys(_WORDS, "")
    if live:
        return {}
    words = {name: getattr(row, name) for name in _WORDS}
    if only_narrows:
        return words
    return {name: text for name, text in words.items() if MARK in text}


def _names_of(workspace: Workspace, incoming: ChannelIn) -> str:
    """What a conversation of two is called: Slack gives it no name."""
    names = workspace.people.filter(slack_id__in=incoming.members or ()).names()
    return ", ".join(sorted(names.values()))[:200] or incoming.name


def set_members(
    channel: Channel,
    slack_ids: Sequence[str],
    known_at: datetime,
    *,
    live: bool = False,
    admits: bool = True,
) -> bool:
    """The channel's complete list of members as of ``known_at``; True when it changed.

    A ``live`` list that was asked for before somebody came or went lets nobody in: it may hold who
    left meanwhile. The next sync asks again. In a connected workspace one that is not ``live`` lets
    nobody in at all, and its members are as unknown as before. Nor does one that does not ``admit``.
    """
    only_narrows = _only_narrows(channel.workspace, live=live)
    row_ids: dict[str, int] = {}
    with transaction.atomic():
        people_by_id(channel.workspace, dict.fromkeys(slack_ids, ("", "")), row_ids)
        member_ids = set(row_ids.values())
        locked = Channel.objects.select_for_update()
        channel.refresh_from_db(fields=["members_changed_at"], from_queryset=locked)
        stored_ids = set(channel.memberships.values_list("person_id", flat=True))
        changed_at = channel.members_changed_at
        is_older = live and changed_at is not None and changed_at >= known_at
        if is_older or only_narrows or not admits:
            member_ids &= stored_ids
        channel.memberships.filter(person__in=stored_ids - member_ids).delete()
        ChannelMember.objects.bulk_create(
            ChannelMember(channel=channel, person_id=pk) for pk in sorted(member_ids - stored_ids)
        )
        if not only_narrows:
            channel.set_members_known(known_at)
    return member_ids != stored_ids


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
