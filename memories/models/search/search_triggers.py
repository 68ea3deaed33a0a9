"""The triggers that maintain the search index, and the index of the tokens.

They belong to no model, and SQLite drops the triggers of a table when a migration rebuilds it. So
each `migrate` checks them. If one is missing, all texts are indexed again. A migration that changes
the two tables of the search has to drop the triggers first.
"""

import sqlite3
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from memories.models.search.documents import MESSAGE, NOTE, VERSION, WORDS
from memories.rules.search.tokenizer import KEY_WIDTH


class Text(NamedTuple):
    """A table with searched texts.

    A change of the columns ``words`` removes the text from the index at once. After a change of
    ``readers`` it is only indexed again, since `visible_to` hides it. ``searched`` is the condition
    for rows in the index, ``of_channel`` that for the rows of a channel.
    """

    table: str
    words: tuple[str, ...]
    readers: str
    searched: str
    of_channel: str = "channel_id = new.id"


TEXTS = {
    MESSAGE: Text(
        "memories_message",
        ("text", "state", "is_notice", "micros", "channel_id"),
        "was_private",
        "{0}state = 'live' AND NOT {0}is_notice AND {0}text <> ''",
    ),
    VERSION: Text(
        "memories_memoryversion",
        ("content", "memory_id"),
        "audience",
        "{0}content <> ''",
        "memory_id IN (SELECT id FROM memories_memory WHERE channel_id = new.id)",
    ),
    NOTE: Text(
        "memories_note",
        ("title", "content", "tags", "channel_id", "deleted_at"),
        "was_private",
        "{0}deleted_at IS NULL AND {0}content <> ''",
    ),
}
CHANNEL = "memories_channel"
DOCUMENT, PENDING = "memories_searchdocument", "memories_searchpending"
ERASED = "erased"  # a row of PENDING: FTS5 may have tokens of deleted texts (`indexing.erase`)


def install(connection: BaseDatabaseWrapper) -> bool:
    """Create the index and its triggers if one is missing, with all texts pending. Return if so."""
    if PENDING not in connection.introspection.table_names():
        return False
    is_sqlite = connection.vendor == "sqlite"
    triggers = _sqlite_triggers(connection) if is_sqlite else _postgres_triggers()
    if triggers.keys() <= existing_triggers(connection):
        return False
    remove(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {DOCUMENT}")  # it is outdated without triggers
        for statement in _sqlite_index(connection) if is_sqlite else _postgres_index():
            cursor.execute(statement)
        for name, trigger in triggers.items():
            cursor.execute(f"CREATE TRIGGER {name} {trigger}")
        for kind, text in TEXTS.items():
            cursor.execute(_mark_rows_pending(kind, text))
    return True


def remove(connection: BaseDatabaseWrapper) -> None:
    """Drop the index and its triggers."""
    existing = existing_triggers(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in existing & _sqlite_triggers(connection).keys():
                cursor.execute(f"DROP TRIGGER {name}")
            cursor.execute(f"DROP TABLE IF EXISTS {WORDS}")
            return
        for table in (CHANNEL, *(text.table for text in TEXTS.values())):
            cursor.execute(f"DROP FUNCTION IF EXISTS {table}_search() CASCADE")
        cursor.execute(f"ALTER TABLE {DOCUMENT} DROP COLUMN IF EXISTS words")


def erases_at_once(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the index erases deleted tokens by itself: FTS5 does so from SQLite 3.42 on."""
    return connection.vendor != "sqlite" or sqlite3.sqlite_version_info >= (3, 42)


def _mark_pending(kind: str, key: str) -> str:
    return f"INSERT INTO {PENDING} (kind, text_id) VALUES ('{kind}', {key}) ON CONFLICT DO NOTHING;"


def _mark_rows_pending(kind: str, text: Text, where: str = "") -> str:
    return (
        f"INSERT INTO {PENDING} (kind, text_id) SELECT '{kind}', id FROM {text.table}"
        f" WHERE {where}{text.searched.format('')} ORDER BY id ON CONFLICT DO NOTHING;"
    )


def _mark_channel_pending() -> str:
    """Return SQL that marks the texts of a channel, whose audience depends on its kind."""
    return " ".join(
        _mark_rows_pending(kind, text, f"{text.of_channel} AND ") for kind, text in TEXTS.items()
    )


def _keyed(row: str = "") -> str:
    """Return SQL for the tokens in the index: each with each key, and each key alone."""
    keyed = (
        f"CASE {row}{key} WHEN '' THEN ''"
        f" ELSE {row}{key} || replace(rtrim({row}tokens), ' ', ' ' || {row}{key}) END"
        for key in ("workspace_key", "channel_key")
    )
    return " || ' ' || ".join(keyed)


def existing_triggers(connection: BaseDatabaseWrapper) -> set[str]:
    """Return the names of all triggers of the database."""
    query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    if connection.vendor != "sqlite":
        query = (
            "SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema()"
        )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return {name for (name,) in cursor.fetchall()}


def _sqlite_index(connection: BaseDatabaseWrapper) -> list[str]:
    lengths = " ".join(str(KEY_WIDTH + letters) for letters in (1, 3, 4, 5, 6, 7, 8))
    made = [
        # Without positions: phrases are checked in the stored text. For this tokenizer all
        # characters beyond ASCII are letters, so it keeps our tokens. The prefix indexes find the
        # newest of many hits fast. The sizes of columns stay, since a backup counts the rows.
        f"CREATE VIRTUAL TABLE {WORDS} USING fts5(tokens, content='', detail=none,"
        f" tokenize='ascii', prefix='{lengths}')"
    ]
    if erases_at_once(connection):
        made.append(f"INSERT INTO {WORDS} ({WORDS}, rank) VALUES ('secure-delete', 1)")
    return made


def _sqlite_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    on_delete = (
        f"INSERT INTO {WORDS} ({WORDS}, rowid, tokens) VALUES ('delete', old.id, {_keyed('old.')});"
    )
    if not erases_at_once(connection):
        on_delete += _mark_pending(ERASED, "0")
    triggers = {
        f"{DOCUMENT}_added": f"AFTER INSERT ON {DOCUMENT} BEGIN"
        f" INSERT INTO {WORDS} (rowid, tokens) VALUES (new.id, {_keyed('new.')}); END",
        f"{DOCUMENT}_gone": f"AFTER DELETE ON {DOCUMENT} BEGIN {on_delete} END",
        f"{CHANNEL}_search_changed": f"AFTER UPDATE OF kind ON {CHANNEL}"
        f" WHEN old.kind IS NOT new.kind BEGIN {_mark_channel_pending()} END",
    }
    for kind, text in TEXTS.items():
        table = text.table
        on_delete = f"DELETE FROM {DOCUMENT} WHERE {kind} = old.id;"
        changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in text.words)
        triggers |= {
            f"{table}_search_added": f"AFTER INSERT ON {table}"
            f" WHEN {text.searched.format('new.')} BEGIN {_mark_pending(kind, 'new.id')} END",
            f"{table}_search_changed": f"AFTER UPDATE OF {', '.join(text.words)} ON {table}"
            f" WHEN {changed} BEGIN {on_delete} {_mark_pending(kind, 'new.id')} END",
            f"{table}_search_readers": f"AFTER UPDATE OF {text.readers} ON {table}"
            f" WHEN old.{text.readers} IS NOT new.{text.readers}"
            f" BEGIN {_mark_pending(kind, 'new.id')} END",
            f"{table}_search_gone": f"AFTER DELETE ON {table} BEGIN {on_delete} END",
        }
    return triggers


def _postgres_index() -> list[str]:
    made = [
        # Not to_tsvector: its parser would split our tokens, and positions are limited.
        f"ALTER TABLE {DOCUMENT} ADD COLUMN words tsvector GENERATED ALWAYS AS (array_to_tsvector("
        f"string_to_array(btrim({_keyed()}), ' '))) STORED",
        f"CREATE INDEX {WORDS} ON {DOCUMENT} USING gin (words)",
        # Statistics of 10,000 tokens. With the usual 1,000 the planner takes a missing word for a
        # frequent one, and reads all texts to find none.
        f"ALTER TABLE {DOCUMENT} ALTER COLUMN words SET STATISTICS 1000",
        f"CREATE FUNCTION {CHANNEL}_search() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" {_mark_channel_pending()} RETURN NULL; END $$",
    ]
    for kind, text in TEXTS.items():
        made.append(
            f"CREATE FUNCTION {text.table}_search() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF TG_OP <> 'INSERT' AND TG_ARGV[0] = 'words' THEN"
            f" DELETE FROM {DOCUMENT} WHERE {kind} = old.id; END IF;"
            f" IF TG_OP <> 'DELETE' THEN {_mark_pending(kind, 'new.id')} END IF; RETURN NULL; END $$"
        )
    return made


def _postgres_triggers() -> dict[str, str]:
    differ = "old.{0} IS DISTINCT FROM new.{0}"
    run = "EXECUTE FUNCTION {}_search('{}')"  # what changed
    triggers = {
        f"{CHANNEL}_search_changed": f"AFTER UPDATE OF kind ON {CHANNEL} FOR EACH ROW"
        f" WHEN ({differ.format('kind')}) {run.format(CHANNEL, 'kind')}"
    }
    for text in TEXTS.values():
        table = text.table
        changed = " OR ".join(differ.format(column) for column in text.words)
        triggers |= {
            f"{table}_search_added": f"AFTER INSERT ON {table} FOR EACH ROW"
            f" WHEN ({text.searched.format('new.')}) {run.format(table, 'words')}",
            f"{table}_search_changed": f"AFTER UPDATE OF {', '.join(text.words)} ON {table}"
            f" FOR EACH ROW WHEN ({changed}) {run.format(table, 'words')}",
            f"{table}_search_readers": f"AFTER UPDATE OF {text.readers} ON {table} FOR EACH ROW"
            f" WHEN ({differ.format(text.readers)}) {run.format(table, 'readers')}",
            f"{table}_search_gone": f"AFTER DELETE ON {table} FOR EACH ROW {run.format(table, 'words')}",
        }
    return triggers
