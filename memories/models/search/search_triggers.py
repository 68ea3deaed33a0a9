"""What keeps the index of the search: triggers, and the index of the tokens itself.

They belong to no model, and SQLite drops a table's triggers whenever a migration makes the table
anew. So they are looked for after each `migrate`; where any was missing, everything is read again.
A migration that changes the two tables of the search has to drop the triggers first.
"""

import sqlite3
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from memories.models.search.documents import MESSAGE, NOTE, VERSION, WORDS
from memories.rules.search.tokenizer import KEY_WIDTH


class Text(NamedTuple):
    """``words``: columns whose change takes the text out of the index at once. After a change of
    ``readers`` it is only read again: until then `visible_to` hides it. ``searched``: which rows are
    searched at all; ``of_channel``: those of a channel."""

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
ERASED = "erased"  # a row of PENDING: FTS5 may hold tokens of what is gone (see pipeline/search.py)


def install(connection: BaseDatabaseWrapper) -> bool:
    """Make all of it where any of it is missing, and put down all texts as waiting; whether it did."""
    if PENDING not in connection.introspection.table_names():
        return False
    is_sqlite = connection.vendor == "sqlite"
    triggers = _sqlite_triggers(connection) if is_sqlite else _postgres_triggers()
    if triggers.keys() <= _triggers(connection):
        return False
    remove(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {DOCUMENT}")  # nobody kept it while triggers were missing
        for statement in _sqlite_index(connection) if is_sqlite else _postgres_index():
            cursor.execute(statement)
        for name, trigger in triggers.items():
            cursor.execute(f"CREATE TRIGGER {name} {trigger}")
        for kind, text in TEXTS.items():
            cursor.execute(_note_rows(kind, text))
    return True


def remove(connection: BaseDatabaseWrapper) -> None:
    """Before the tables of the search go, and before all of it is made anew."""
    there = _triggers(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in there & _sqlite_triggers(connection).keys():
                cursor.execute(f"DROP TRIGGER {name}")
            cursor.execute(f"DROP TABLE IF EXISTS {WORDS}")
            return
        for table in (CHANNEL, *(text.table for text in TEXTS.values())):
            cursor.execute(f"DROP FUNCTION IF EXISTS {table}_search() CASCADE")
        cursor.execute(f"ALTER TABLE {DOCUMENT} DROP COLUMN IF EXISTS words")


def erases_at_once(connection: BaseDatabaseWrapper) -> bool:
    """Whether the index drops deleted tokens by itself; FTS5 only learned to in SQLite 3.42."""
    return connection.vendor != "sqlite" or sqlite3.sqlite_version_info >= (3, 42)


def _note(kind: str, key: str) -> str:
    return f"INSERT INTO {PENDING} (kind, text_id) VALUES ('{kind}', {key}) ON CONFLICT DO NOTHING;"


def _note_rows(kind: str, text: Text, where: str = "") -> str:
    return (
        f"INSERT INTO {PENDING} (kind, text_id) SELECT '{kind}', id FROM {text.table}"
        f" WHERE {where}{text.searched.format('')} ORDER BY id ON CONFLICT DO NOTHING;"
    )


def _note_channel() -> str:
    """What a channel's new kind does to the audience of its texts is read again."""
    return " ".join(
        _note_rows(kind, text, f"{text.of_channel} AND ") for kind, text in TEXTS.items()
    )


def _keyed(row: str = "") -> str:
    """The tokens as the index has them, in SQL of both databases: each behind each key, and each key
    once by itself."""
    keyed = (
        f"CASE {row}{key} WHEN '' THEN ''"
        f" ELSE {row}{key} || replace(rtrim({row}tokens), ' ', ' ' || {row}{key}) END"
        for key in ("workspace_key", "channel_key")
    )
    return " || ' ' || ".join(keyed)


def _triggers(connection: BaseDatabaseWrapper) -> set[str]:
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
        # Only which text has which token: phrases are looked up in the stored text. To this
        # tokenizer everything beyond ASCII is a letter, so tokens stay as they were cut. With the
        # beginnings of words kept as well, the newest of very many come without reading the rest.
        # Sizes of columns are kept because a backup counts the rows, which needs them.
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
        on_delete += _note(ERASED, "0")
    triggers = {
        f"{DOCUMENT}_added": f"AFTER INSERT ON {DOCUMENT} BEGIN"
        f" INSERT INTO {WORDS} (rowid, tokens) VALUES (new.id, {_keyed('new.')}); END",
        f"{DOCUMENT}_gone": f"AFTER DELETE ON {DOCUMENT} BEGIN {on_delete} END",
        f"{CHANNEL}_search_changed": f"AFTER UPDATE OF kind ON {CHANNEL}"
        f" WHEN old.kind IS NOT new.kind BEGIN {_note_channel()} END",
    }
    for kind, text in TEXTS.items():
        table = text.table
        on_delete = f"DELETE FROM {DOCUMENT} WHERE {kind} = old.id;"
        changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in text.words)
        triggers |= {
            f"{table}_search_added": f"AFTER INSERT ON {table}"
            f" WHEN {text.searched.format('new.')} BEGIN {_note(kind, 'new.id')} END",
            f"{table}_search_changed": f"AFTER UPDATE OF {', '.join(text.words)} ON {table}"
            f" WHEN {changed} BEGIN {on_delete} {_note(kind, 'new.id')} END",
            f"{table}_search_readers": f"AFTER UPDATE OF {text.readers} ON {table}"
            f" WHEN old.{text.readers} IS NOT new.{text.readers}"
            f" BEGIN {_note(kind, 'new.id')} END",
            f"{table}_search_gone": f"AFTER DELETE ON {table} BEGIN {on_delete} END",
        }
    return triggers


def _postgres_index() -> list[str]:
    made = [
        # Not by to_tsvector: its parser would cut our tokens once more, and positions have an end.
        f"ALTER TABLE {DOCUMENT} ADD COLUMN words tsvector GENERATED ALWAYS AS (array_to_tsvector("
        f"string_to_array(btrim({_keyed()}), ' '))) STORED",
        f"CREATE INDEX {WORDS} ON {DOCUMENT} USING gin (words)",
        # How common the ten thousand most common tokens are: of the usual thousand it takes a word
        # that nobody says for one said often, and walks through all texts to find none.
        f"ALTER TABLE {DOCUMENT} ALTER COLUMN words SET STATISTICS 1000",
        f"CREATE FUNCTION {CHANNEL}_search() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" {_note_channel()} RETURN NULL; END $$",
    ]
    for kind, text in TEXTS.items():
        made.append(
            f"CREATE FUNCTION {text.table}_search() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF TG_OP <> 'INSERT' AND TG_ARGV[0] = 'words' THEN"
            f" DELETE FROM {DOCUMENT} WHERE {kind} = old.id; END IF;"
            f" IF TG_OP <> 'DELETE' THEN {_note(kind, 'new.id')} END IF; RETURN NULL; END $$"
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
