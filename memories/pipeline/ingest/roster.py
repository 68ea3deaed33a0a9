"""Store raw people and channels as rows, for imports, syncs and events.

Objects may come twice, in any order, and storing may stop anywhere. Each batch is one transaction,
and an older object does not overwrite a newer row.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from memories.models import Channel, ChannelMember, Person, Workspace
from memories.pipeline.access import channel_audience
from memories.pipeline.access.linking import link_people
from memories.rules.batches import in_batches
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
from memories.rules.redaction.shingles import REDACTED

PEOPLE_PER_BATCH = 500
CHANNELS_PER_BATCH = 50

_PERSON_FIELDS = (
    *("name", "real_name", "email", "updated"),
    *("is_bot", "is_guest", "is_external", "is_deleted"),
)
_NARROWING_FIELDS = ("is_guest", "is_external", "is_deleted")
_TEXT_FIELDS = ("topic", "purpose")
_CHANNEL_FIELDS = ("name", "is_archived", "is_shared", *_TEXT_FIELDS)


def store_people(
    workspace: Workspace, raws: Iterable[object], *, live: bool = False, is_event: bool = False
) -> Tally:
    """Store people; a row from a later profile (``updated``) stays unchanged.

    ``live`` objects are Slack's current answers. In a connected workspace only they make a person a
    full member; people from other objects stay placeholders. It keeps e-mail addresses only when
    its settings allow them. An export can contain any ``updated``, so there it changes neither the
    ``updated`` nor the names of people that Slack has listed.
    """
    with_emails = workspace.connected_at is None or workspace.memory_settings.read_emails
    tally = Tally()
    for batch in in_batches(raws, PEOPLE_PER_BATCH):
        tally.count_seen(ObjectType.PERSON, len(batch))
        profiles: list[PersonIn] = []
        for raw in batch:
            profile = parse_person(raw, workspace.team_id)
            if isinstance(profile, Outcome):
                tally.count_outcome(ObjectType.PERSON, profile)
            else:
                profiles.append(profile if with_emails else replace(profile, email=""))
        with transaction.atomic():
            for outcome in _store_profiles(workspace, profiles, live=live, is_event=is_event):
                tally.count_outcome(ObjectType.PERSON, outcome)
    link_people(workspace)
    return tally


def _only_narrows(workspace: Workspace, *, live: bool) -> bool:
    """Return whether these objects may only reduce access.

    In a connected workspace only Slack's current lists extend it: exports and events may be old.
    """
    return not live and workspace.connected_at is not None


def _store_profiles(
    workspace: Workspace, profiles: Sequence[PersonIn], *, live: bool, is_event: bool
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
        if profile.is_guest is None:  # unknown: a guest stays a guest
            values["is_guest"] = row is not None and row.is_guest
        if only_narrows and (row is None or row.email != profile.email):
            values["email"] = ""  # an address can link an account
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
            values |= {name: values[name] or before[name] for name in _NARROWING_FIELDS}
        values["updated"] = profile.updated or row.updated
        if only_narrows and not (is_event or row.is_placeholder):
            values |= {name: before[name] for name in ("name", "real_name", "updated")}
        is_first_listing = row.is_placeholder and not only_narrows
        is_older = 0 < profile.updated < row.updated and not is_first_listing
        if is_older or (before == values and not is_first_listing):
            outcomes.append(DUPLICATE)
            continue
        outcomes.append(STORED if is_first_listing else UPDATED)
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


def demote_unlisted_people(workspace: Workspace, listed: Collection[str]) -> int:
    """Make placeholders of members that a complete list of Slack leaves out; return their number.

    Slack lists deactivated people too, so a missing one points to a cut list or to another team.
    """
    members = workspace.people.full_members().filter(is_bot=False, is_deleted=False)
    unlisted = [
        pk for pk, slack_id in members.values_list("pk", "slack_id") if slack_id not in listed
    ]
    for keys in in_batches(unlisted, PEOPLE_PER_BATCH):
        workspace.people.filter(pk__in=keys).update(is_placeholder=True)
    return len(unlisted)


def add_row_ids(
    workspace: Workspace, authors: Mapping[str, tuple[str, str]], row_ids: dict[str, int]
) -> None:
    """Add the authors to ``row_ids`` (Slack id → row id); create placeholders for unknown people.

    ``authors`` is Slack id → (name or "", team or ""). A list of people completes a placeholder.
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
            is_external=bool(workspace.team_id)
            and authors[slack_id][1] not in ("", workspace.team_id),
            is_placeholder=True,
        )
        for slack_id in missing
        if slack_id not in row_ids
    ]
    if new:
        Person.objects.bulk_create(new, ignore_conflicts=True)
        created = [row.slack_id for row in new]
        rows = workspace.people.filter(slack_id__in=created).values_list("slack_id", "pk")
        row_ids.update(rows)


def store_channels(
    workspace: Workspace,
    raws: Iterable[tuple[object, str]],
    *,
    known_at: datetime,
    live: bool = False,
    direct: bool = False,
    admits: bool = True,
) -> Tally:
    """Store channels with the kind of their list: public, private, and with ``direct`` im or mpim.

    ``known_at`` is the time that the objects describe; data from before the row's time changes
    nothing. Only ``live`` objects, Slack's current answers, may make a private channel public, or
    add a public one to a connected workspace: an export may be older than the day it became
    private. Without ``admits``, lists of members add nobody to a known private channel.
    """
    tally = Tally()
    for batch in in_batches(raws, CHANNELS_PER_BATCH):
        tally.count_seen(ObjectType.CHANNEL, len(batch))
        with transaction.atomic():
            for raw, kind in batch:
                parsed = parse_channel(raw, kind, direct=direct)
                if not isinstance(parsed, Outcome):
                    parsed = _store_channel(workspace, parsed, known_at, live=live, admits=admits)
                tally.count_outcome(ObjectType.CHANNEL, parsed)
    return tally


def _store_channel(
    workspace: Workspace, incoming: ChannelIn, known_at: datetime, *, live: bool, admits: bool
) -> Outcome:
    only_narrows = _only_narrows(workspace, live=live)
    values: dict[str, Any] = {name: getattr(incoming, name) for name in _CHANNEL_FIELDS}
    members = workspace.people.filter(slack_id__in=incoming.members or ())
    if incoming.kind == Channel.Kind.IM or (
        # Slack's name of a group message has the names of its members.
        incoming.kind == Channel.Kind.MPIM and members.exclude(forgotten_at=None).exists()
    ):
        # Slack gives a direct message no name.
        values["name"] = members.joined_names() or incoming.name
    row = workspace.channels.filter(slack_id=incoming.slack_id).first()
    if row is None:
        values["kind"] = incoming.kind
        if only_narrows and incoming.kind == Channel.Kind.PUBLIC:
            # It may have become private since: it is public when Slack's own list says so.
            values |= {"kind": Channel.Kind.PRIVATE, "private_since": known_at}
        row = workspace.channels.create(slack_id=incoming.slack_id, **values)
        outcome, admits = STORED, True
    elif row.members_known_at and known_at < row.members_known_at:
        return DUPLICATE
    else:
        # An event reduced the readers after these data were read.
        is_older = row.access_narrowed_at is not None and known_at <= row.access_narrowed_at
        if (live and not is_older) or row.is_public:
            values["kind"] = incoming.kind
        if is_older or only_narrows:
            values["is_shared"] = incoming.is_shared or row.is_shared
        values |= _kept_texts(row, live=live, only_narrows=only_narrows)
        was, was_shared = row.kind, row.is_shared
        outcome = UPDATED if row.update_fields(values) else DUPLICATE
        channel_audience.update_audience(row, was, was_shared=was_shared)
    if incoming.members is not None and set_members(
        row, incoming.members, known_at, live=live, admits=admits or row.is_public
    ):
        outcome = outcome if outcome is STORED else UPDATED
    return outcome


def _kept_texts(row: Channel, *, live: bool, only_narrows: bool) -> dict[str, str]:
    """Return the topic and purpose that the objects may not change.

    A forgotten channel has none. An export may not bring back redacted words.
    """
    if row.forgotten_at is not None:
        return dict.fromkeys(_TEXT_FIELDS, "")
    if live:
        return {}
    texts = {name: getattr(row, name) for name in _TEXT_FIELDS}
    if only_narrows:
        return texts
    return {name: text for name, text in texts.items() if REDACTED in text}


def set_members(
    channel: Channel,
    slack_ids: Sequence[str],
    known_at: datetime,
    *,
    live: bool = False,
    admits: bool = True,
) -> bool:
    """Set the channel's complete list of members as of ``known_at``; return whether it changed.

    A ``live`` list from before a join or leave adds nobody, because a person may have left since.
    The next sync reads it again. In a connected workspace a list that is not ``live`` adds nobody
    and leaves ``members_known_at`` unchanged. Without ``admits`` the list adds nobody either.
    """
    only_narrows = _only_narrows(channel.workspace, live=live)
    row_ids: dict[str, int] = {}
    with transaction.atomic():
        add_row_ids(channel.workspace, dict.fromkeys(slack_ids, ("", "")), row_ids)
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
