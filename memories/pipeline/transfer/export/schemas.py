"""Schemas of the objects in an exported workspace, derived from the models.

An export contains every column that is not excluded here. References between rows are Slack ids,
user names, version numbers and line numbers of files.
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
    Budget,
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
    boolean,
    integer,
    json_object,
    list_of,
    nullable,
    number,
    one_of,
    pattern,
    text,
    ts,
    ts_or_empty,
    tuple_of,
)


@dataclass(frozen=True)
class ModelSchema(Schema):
    """Objects of one model. ``columns`` are the keys with the value of a column."""

    columns: tuple[str, ...] = ()


def model_schema(model: type[models.Model], *excluded: str, **checks: Check) -> ModelSchema:
    """Return a schema of the model's columns, without relations and ``excluded`` columns.

    ``checks`` add keys, or replace the check of a column.
    """
    fields = {f.name: f for f in model._meta.concrete_fields if not f.is_relation}
    derived = {
        name: column_check(field)
        for name, field in fields.items()
        if not field.primary_key and name not in excluded
    }
    all_checks = derived | checks
    return ModelSchema(all_checks, tuple(name for name in all_checks if name in fields))


def column_check(field: "models.Field[Any, Any]") -> Check:
    """Return the check of a column: values that both databases can store."""
    kind = field.get_internal_type()
    if field.choices:
        check = one_of([value for value, _ in field.flatchoices] + [""] * field.blank)
    elif field.name == "ts" or field.name.endswith("_ts"):
        check = ts_or_empty if field.blank else ts
    elif kind in BaseDatabaseOperations.integer_field_ranges:
        check = integer(*BaseDatabaseOperations.integer_field_ranges[kind])
    elif kind == "JSONField":
        check = list_of(text()) if field.default is list else json_object
    elif kind in _PARSED:
        check = _parsed(field)
    elif kind == "BooleanField":
        check = boolean
    elif kind == "FloatField":
        check = number
    else:
        check = text(field.max_length)
    return nullable(check) if field.null else check


_PARSED = {
    "DateTimeField": "time in ISO 8601",
    "DateField": "date like 2026-01-05",
    "DecimalField": "amount such as 12.50",
}


def _parsed(field: "models.Field[Any, Any]") -> Check:
    """Return a check that parses a text into a time in UTC, a date or an amount."""

    def check(value: Any) -> Any:
        try:
            parsed = field.clean(text()(value), None)
            if isinstance(parsed, datetime):
                if parsed.tzinfo is None:
                    raise SchemaError("is a time without an offset")
                return parsed.astimezone(UTC)
        except (ValidationError, OverflowError) as error:
            raise SchemaError(f"is no {_PARSED[field.get_internal_type()]}") from error
        if isinstance(parsed, Decimal) and parsed < 0:
            raise SchemaError("is below zero")
        return parsed

    return check


ID = text(32, min_length=1)
NUMBER = integer(1, 2**31 - 1)  # of a version
USER = nullable(text(150, min_length=1))
SEGMENT_KEY = tuple_of(ID, ts_or_empty, integer())  # channel, thread, number
MEMORY_KEY = tuple_of(one_of(MemoryScope), text(60, min_length=1), one_of(MemoryType))
MESSAGE_KEY = tuple_of(ID, ts)  # channel, ts

WORKSPACE = model_schema(
    Workspace,
    *("pass_queued_at", "pass_due_at", "next_sync_at", "listed_at"),  # tasks of the installation
    slug=pattern("[-a-zA-Z0-9_]{1,50}"),
    members=list_of(model_schema(Member, user=text(150, min_length=1))),
    budgets=list_of(model_schema(Budget)),
)
PERSON = model_schema(
    Person,
    "link_valid_until",  # a link in an export proves nothing
    slack_id=ID,
    user=USER,
    linked_by=one_of(("", "email", "slack", "demo")),
)
CHANNEL = model_schema(
    Channel,
    # What the app sees of it: the app and its token stay with the installation.
    *("bot_is_in", "members_changed_at", "access_narrowed_at", "earlier_starts"),
    slack_id=ID,
    synced_ts=ts_or_empty,  # of ChannelSync, whose other fields stay with the installation too
    members=list_of(ID),
)
SEGMENT = model_schema(Segment, "created_us", channel=ID)
MESSAGE = model_schema(
    Message,
    "micros",  # the ts as a number
    *(
        "stored_at",
        "replies_read_at",
        "has_unread_replies",
        "thread_read_to_ts",
    ),  # of the installation
    author=nullable(ID),
    segment=nullable(integer()),
    thread_segment=nullable(tuple_of(ts_or_empty, integer())),  # thread, number
)
BACKFILL = model_schema(
    Backfill,
    channels=list_of(tuple_of(ID, nullable(integer(-(2**63))))),  # and its start mark before
    author=USER,
    state=one_of(set(Backfill.State) - {Backfill.State.RUNNING}),
)
MEMORY = model_schema(
    Memory,
    scope_id=text(60, min_length=1),
    channel=nullable(ID),
    current=nullable(NUMBER),
    versions=list_of(NUMBER),
)
LINE = model_schema(Line, "position", "outcome_us", author=USER, sources=list_of(MESSAGE_KEY))
# Columns of a job that its versions repeat as ``made_by``.
MADE_BY = {
    field.name: column_check(field)
    for field in Job._meta.concrete_fields
    if field.name in ("model", "prompt_version", "prompt_tokens", "completion_tokens")
}
VERSION = model_schema(
    MemoryVersion,
    "content",  # follows the front
    number=NUMBER,
    author=USER,
    base=nullable(NUMBER),
    restored_from=nullable(NUMBER),
    segment=nullable(SEGMENT_KEY),
    job=nullable(integer(1)),  # its line in jobs.jsonl
    made_by=nullable(Schema(MADE_BY)),
    lines=list_of(LINE),
)
JOB = model_schema(
    Job,
    *("fence", "lease_until", "form", "failed_at"),  # of the installation and its endpoint
    "input_key",  # computed anew, see job_keys.py
    memory=MEMORY_KEY,
    segment=nullable(SEGMENT_KEY),
    base=nullable(NUMBER),
    inputs=list_of(tuple_of(MEMORY_KEY, NUMBER, integer())),  # and its revision at that time
    backfill=nullable(integer(1)),  # its line in backfills.jsonl
    inputs_hold=boolean,
    state=one_of(set(Job.State) - {Job.State.CLAIMED}),
    reply_sources=list_of(list_of(MESSAGE_KEY)),
)
NOTE_VERSION = model_schema(
    NoteVersion,
    number=NUMBER,
    channel=nullable(ID),
    restored_from=nullable(NUMBER),
    written_by=USER,
)
NOTE = model_schema(
    Note,
    "revision",  # the base of an open form
    number=NUMBER,
    restored_from=nullable(NUMBER),
    channel=nullable(ID),
    source=nullable(MESSAGE_KEY),
    **dict.fromkeys(("author", "written_by", "deleted_by"), USER),
    versions=list_of(NOTE_VERSION),
)
