"""The kinds of objects in a bundle, derived from the models.

Every column travels, unless it is left out here. References between rows have keys of their own:
Slack ids, usernames, numbers of versions and lines of files.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.operations import BaseDatabaseOperations

from memories.models import (
    Backfill,
    Cap,
    Channel,
    Job,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NoteVersion,
    Person,
    Segment,
    Workspace,
)
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.transfer.schema import (
    Check,
    Schema,
    SchemaError,
    an_object,
    flag,
    many,
    maybe,
    number,
    one_of,
    pattern,
    row,
    text,
    ts,
    ts_or_none,
    whole,
)


@dataclass(frozen=True)
class Records(Schema):
    """Objects of one model. ``plain``: the keys that hold a column's value as it is."""

    plain: tuple[str, ...] = ()


def records(model: type[models.Model], *left_out: str, **others: Check) -> Records:
    """The columns of a model without those left out; ``others`` are checks for further keys and
    in place of derived ones."""
    columns = {
        field.name: column(field)
        for field in model._meta.concrete_fields
        if not field.is_relation and not field.primary_key and field.name not in left_out
    }
    names = {field.name for field in model._meta.concrete_fields if not field.is_relation}
    plain = tuple(name for name in {**columns, **others} if name in names)
    return Records({**columns, **others}, plain)


def column(field: "models.Field[Any, Any]") -> Check:
    """The check for a column's value: what both databases can store, and one of its choices."""
    kind = field.get_internal_type()
    if field.choices:
        check = one_of([word for word, _ in field.flatchoices] + [""] * field.blank)
    elif field.name == "ts" or field.name.endswith("_ts"):
        check = ts_or_none if field.blank else ts
    elif kind in BaseDatabaseOperations.integer_field_ranges:
        check = whole(*BaseDatabaseOperations.integer_field_ranges[kind])
    elif kind == "JSONField":
        check = many(text()) if field.default is list else an_object
    elif kind in _LIKE:
        check = _parsed(field)
    else:
        other = {"BooleanField": flag, "FloatField": number}
        check = other.get(kind) or text(field.max_length)
    return maybe(check) if field.null else check


_LIKE = {
    "DateTimeField": "moment in ISO 8601",
    "DateField": "date like 2026-01-05",
    "DecimalField": "amount such as 12.50",
}


def _parsed(field: "models.Field[Any, Any]") -> Check:
    """A text that the field turns into a moment in UTC, a day or an amount."""

    def check(value: Any) -> Any:
        try:
            read = field.clean(text()(value), None)
            if isinstance(read, datetime):
                if read.tzinfo is None:
                    raise SchemaError("is a moment without an offset")
                return read.astimezone(UTC)
        except (ValidationError, OverflowError) as error:
            raise SchemaError(f"is no {_LIKE[field.get_internal_type()]}") from error
        if isinstance(read, Decimal) and read < 0:
            raise SchemaError("is below zero")
        return read

    return check


ID = text(32, least=1)
USER = maybe(text(150, least=1))
SEGMENT_KEY = row(ID, ts_or_none, whole())  # channel, thread, number
MEMORY_KEY = row(one_of(MemoryScope), text(60, least=1), one_of(MemoryType))
MESSAGE_KEY = row(ID, ts)  # channel, ts

WORKSPACE = records(
    Workspace,
    *("offered_at", "sync_again_at", "listed_at"),  # tasks of the installation
    slug=pattern("[-a-zA-Z0-9_]{1,50}"),
    members=many(records(Member, user=text(150, least=1))),
    caps=many(records(Cap)),
)
PERSON = records(
    Person,
    "opens_until",  # a link of a bundle proves nothing
    slack_id=ID,
    user=USER,
    linked_by=one_of(("", "email", "slack", "demo")),
)
CHANNEL = records(
    Channel,
    # What the app sees of it: the app and its token stay with the installation.
    *("bot_is_in", "members_changed_at", "narrowed_at"),
    slack_id=ID,
    synced_ts=ts_or_none,  # of ChannelSync, whose other fields stay with the installation too
    members=many(ID),
)
SEGMENT = records(Segment, channel=ID)
MESSAGE = records(
    Message,
    "micros",  # the ts as a number
    *("stored_at", "replies_read_at", "thread_moved", "thread_at_ts"),  # of the installation
    author=maybe(ID),
    segment=maybe(whole()),
    thread_segment=maybe(row(ts_or_none, whole())),  # thread, number
)
BACKFILL = records(
    Backfill,
    channels=many(row(ID, maybe(whole(-(2**63))))),  # and its start mark before
    author=USER,
    state=one_of(set(Backfill.State) - {Backfill.State.RUNNING}),
)
MEMORY = records(
    Memory,
    scope_id=text(60, least=1),
    channel=maybe(ID),
    current=maybe(whole(1)),
    versions=many(whole(1)),
)
LINE = records(Line, "position", sources=many(MESSAGE_KEY))
# What a job says of a text, also in front of the text itself.
FACTS = {
    field.name: column(field)
    for field in Job._meta.concrete_fields
    if field.name in ("model", "prompt_version", "prompt_tokens", "completion_tokens")
}
VERSION = records(
    MemoryVersion,
    "content",  # follows the front
    number=whole(1),
    author=USER,
    base=maybe(whole(1)),
    restored_from=maybe(whole(1)),
    segment=maybe(SEGMENT_KEY),
    job=maybe(whole(1)),  # its line in jobs.jsonl
    made_by=maybe(Schema(FACTS)),
    lines=many(LINE),
)
GENERATION = records(
    Job,
    *("fence", "lease_until", "form", "failed_at"),  # of the installation and its endpoint
    "input_key",  # made anew, see `keys`
    memory=MEMORY_KEY,
    segment=maybe(SEGMENT_KEY),
    base=maybe(whole(1)),
    inputs=many(row(MEMORY_KEY, whole(1), whole())),  # and its revision when it was read
    backfill=maybe(whole(1)),  # its line in backfills.jsonl
    inputs_hold=flag,
    state=one_of(set(Job.State) - {Job.State.CLAIMED}),
    cites=many(many(MESSAGE_KEY)),
)
NOTE_VERSION = records(
    NoteVersion, number=whole(1), channel=maybe(ID), restored_from=maybe(whole(1)), written_by=USER
)
NOTE = records(
    Note,
    "revision",  # what an open form was based on
    number=whole(1),
    restored_from=maybe(whole(1)),
    channel=maybe(ID),
    **dict.fromkeys(("author", "worded_by", "deleted_by"), USER),
    versions=many(NOTE_VERSION),
)
