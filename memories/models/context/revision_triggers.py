"""The triggers that change the revision with each table that a context is read from.

They belong to no model. They are removed before migrations run and created after these. SQLite drops
the triggers of a table that it rebuilds, and PostgreSQL alters no column that a trigger names.
"""

from collections.abc import Iterator
from hashlib import sha256

from django.db.backends.base.base import BaseDatabaseWrapper

from memories.models.access.readers import MEMBERSHIP_LASTS
from memories.models.context.revisions import REVISED
from memories.models.search.search_triggers import existing_triggers

REVISION = "memories_revision"
_PREFIX = "revision_of_"  # of the names of the triggers

# The tables, each with the columns that no context shows and that change often.
TABLES: dict[str, str] = {
    "memories_apikey_channels": "",
    "memories_channel": "members_changed_at segments_from_us topic purpose bot_is_in",
    "memories_channelmember": "",
    "memories_earlierwording": "",
    "memories_line": "",
    "memories_member": "",
    "memories_memory": "",
    "memories_memoryversion": "merged updated_at",
    "memories_message": "raw reply_count latest_reply replies_read_at has_unread_replies"
    " thread_read_to_ts thread_segment_id",
    "memories_note": "",
    "memories_noteversion": "",
    "memories_person": "updated",
    # The search creates its column `words` itself, and drops it.
    "memories_searchdocument": "words",
    "memories_segment": "outcome stale",
    "memories_slackconnection": "encrypted_token token_end app_id bot_id scopes trouble slow_plan"
    " checked_at event_at",
    "memories_user": "password last_login language time_zone theme density shortcuts",
    "memories_workspace": "synced_at next_sync_at pass_queued_at pass_due_at",
}
# Times of complete lists. Each sync sets them, which only counts if a list was or is nearly stale.
LISTED = ("listed_at", "members_known_at")
_FRESH_SECONDS = int(MEMBERSHIP_LASTS.total_seconds()) - 3600


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers unless they exist as this program defines them."""
    if REVISION not in connection.introspection.table_names():
        return
    statements = dict(_statements(connection))
    suffix = sha256(repr(statements).encode()).hexdigest()[:8]
    if existing_triggers(connection) >= {f"{name}_{suffix}" for name in statements if name}:
        return
    remove(connection)
    with connection.cursor() as cursor:
        for name, statement in statements.items():
            cursor.execute(f"CREATE TRIGGER {name}_{suffix} {statement}" if name else statement)
        cursor.execute(_change(connection))  # the data may have changed without triggers


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            cursor.execute(f"DROP FUNCTION IF EXISTS {REVISION}_changed() CASCADE")
            return
        for name in existing_triggers(connection):
            if name.startswith(_PREFIX):
                cursor.execute(f"DROP TRIGGER {name}")


def _change(connection: BaseDatabaseWrapper) -> str:
    """Return SQL that changes the revision."""
    if connection.vendor == "sqlite":
        return (
            f"INSERT INTO {REVISION} (id, number) VALUES (1, random())"
            " ON CONFLICT (id) DO UPDATE SET number = excluded.number;"
        )
    return f"INSERT INTO {REVISION} (number) VALUES ((random() * 2 ^ 53)::bigint);"


def _statements(connection: BaseDatabaseWrapper) -> Iterator[tuple[str, str]]:
    """Return the triggers by name, without their suffix, and PostgreSQL's function by ""."""
    is_sqlite = connection.vendor == "sqlite"
    run, each_row, once = f"BEGIN {_change(connection)} END", "", ""
    if not is_sqlite:
        yield (
            "",
            f"CREATE FUNCTION {REVISION}_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF coalesce(current_setting('{REVISED}', true), '') = '' THEN {_change(connection)}"
            f" PERFORM set_config('{REVISED}', '1', true); END IF; RETURN NULL; END $$",
        )
        run = f"EXECUTE FUNCTION {REVISION}_changed()"
        each_row, once = "FOR EACH ROW", "FOR EACH STATEMENT"
    for table, ignored in TABLES.items():
        name = f"{_PREFIX}{table.removeprefix('memories_')}"
        with connection.cursor() as cursor:
            described = connection.introspection.get_table_description(cursor, table)
        columns = [x.name for x in described if x.name not in ("id", *ignored.split())]
        quoted = [connection.ops.quote_name(column) for column in columns]
        differ = [_differ(column, is_sqlite=is_sqlite) for column in quoted]
        yield f"{name}_added", f"AFTER INSERT ON {table} {once} {run}"
        yield f"{name}_gone", f"AFTER DELETE ON {table} {once} {run}"
        yield (
            f"{name}_changed",
            f"AFTER UPDATE OF {', '.join(quoted)} ON {table} {each_row}"
            f" WHEN ({' OR '.join(differ)}) {run}",
        )


def _differ(column: str, *, is_sqlite: bool) -> str:
    """Return the condition under which a change of the column counts."""
    differ = f"old.{column} {'IS NOT' if is_sqlite else 'IS DISTINCT FROM'} new.{column}"
    if column.strip('"') not in LISTED:
        return differ
    fresh_since = f"clock_timestamp() - interval '{_FRESH_SECONDS} seconds'"
    if is_sqlite:
        fresh_since = f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-{_FRESH_SECONDS} seconds')"
    is_fresh = f"old.{column} > {fresh_since} AND new.{column} > {fresh_since}"
    return f"({differ} AND NOT coalesce({is_fresh}, false))"
