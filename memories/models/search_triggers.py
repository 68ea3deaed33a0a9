"""What keeps the index of the search: triggers, and the index of the tokens itself.

They belong to no model, and SQLite drops a table's triggers whenever a migration makes the table
anew. So they are looked for after each `migrate`; where any was missing, everything is read again.
A migration that changes the two tables of the search has to drop the triggers first.
"""

import sqlite3

from django.db.backends.base.base import BaseDatabaseWrapper

from memories.models.search import MESSAGE, NOTE, VERSION, WORDS

# kind → its table, the columns whose change counts, and which rows are searched at all.
TEXTS = {
    MESSAGE: (
        "memories_message",
        ("text", "state", "is_notice", "micros", "channel_id"),
        "{0}state = 'live' AND NOT {0}is_notice AND {0}text <> ''",
    ),
    VERSION: ("memories_memoryversion", ("content", "memory_id"), "{0}content <> ''"),
    NOTE: ("memories_note", ("title", "content", "tags", "channel_id"), "{0}content <> ''"),
}
DOCUMENT, PENDING = "memories_searchdocument", "memories_searchpending"
ERASED = "erased"  # a row of PENDING: FTS5 may hold tokens of what is gone (see pipeline/search.py)


def install(connection: BaseDatabaseWrapper) -> bool:
    """Make all of it where any of it is missing, and put down all texts as waiting; whether it did."""
    if PENDING not in connection.introspection.table_names():
        return False
    is_sqlite = connection.vendor == "sqlite"
    wanted = _sqlite_triggers(connection) if is_sqlite else _postgres_triggers()
    if wanted.keys() <= _triggers(connection):
        return False
    remove(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {DOCUMENT}")  # nobody kept it while triggers were missing
        for statement in _sqlite_index(connection) if is_sqlite else _postgres_index():
            cursor.execute(statement)
        for name, trigger in wanted.items():
            cursor.execute(f"CREATE TRIGGER {name} {trigger}")
        for kind, (table, _, searched) in TEXTS.items():
            cursor.execute(
                f"INSERT INTO {PENDING} (kind, text_id) SELECT '{kind}', id FROM {table}"
                f" WHERE {searched.format('')} ORDER BY id ON CONFLICT DO NOTHING"
            )
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
        for table, _, _ in TEXTS.values():
            cursor.execute(f"DROP FUNCTION IF EXISTS {table}_search() CASCADE")
        cursor.execute(f"ALTER TABLE {DOCUMENT} DROP COLUMN IF EXISTS words")


def erases_at_once(connection: BaseDatabaseWrapper) -> bool:
    """Whether the index drops deleted tokens by itself; FTS5 only learned to in SQLite 3.42."""
    return connection.vendor != "sqlite" or sqlite3.sqlite_version_info >= (3, 42)


def _note(kind: str, key: str) -> str:
    return f"INSERT INTO {PENDING} (kind, text_id) VALUES ('{kind}', {key}) ON CONFLICT DO NOTHING;"


def _triggers(connection: BaseDatabaseWrapper) -> set[str]:
    asked = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    if connection.vendor != "sqlite":
        asked = (
            "SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema()"
        )
    with connection.cursor() as cursor:
        cursor.execute(asked)
        return {name for (name,) in cursor.fetchall()}


def _sqlite_index(connection: BaseDatabaseWrapper) -> list[str]:
    made = [
        # Only which text has which token: phrases are looked up in the stored text. To this
        # tokenizer everything beyond ASCII is a letter, so tokens stay as they were cut. With the
        # beginnings of words kept as well, the newest of very many come without reading the rest.
        f"CREATE VIRTUAL TABLE {WORDS} USING fts5(tokens, content='{DOCUMENT}', content_rowid='id',"
        " detail=none, columnsize=0, tokenize='ascii', prefix='1 3 4 5 6 7 8')"
    ]
    if erases_at_once(connection):
        made.append(f"INSERT INTO {WORDS} ({WORDS}, rank) VALUES ('secure-delete', 1)")
    return made


def _sqlite_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    gone = f"INSERT INTO {WORDS} ({WORDS}, rowid, tokens) VALUES ('delete', old.id, old.tokens);"
    if not erases_at_once(connection):
        gone += _note(ERASED, "0")
    wanted = {
        f"{DOCUMENT}_added": f"AFTER INSERT ON {DOCUMENT} BEGIN"
        f" INSERT INTO {WORDS} (rowid, tokens) VALUES (new.id, new.tokens); END",
        f"{DOCUMENT}_gone": f"AFTER DELETE ON {DOCUMENT} BEGIN {gone} END",
    }
    for kind, (table, columns, searched) in TEXTS.items():
        gone = f"DELETE FROM {DOCUMENT} WHERE {kind} = old.id;"
        changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in columns)
        wanted |= {
            f"{table}_search_added": f"AFTER INSERT ON {table} WHEN {searched.format('new.')}"
            f" BEGIN {_note(kind, 'new.id')} END",
            f"{table}_search_changed": f"AFTER UPDATE OF {', '.join(columns)} ON {table}"
            f" WHEN {changed} BEGIN {gone} {_note(kind, 'new.id')} END",
            f"{table}_search_gone": f"AFTER DELETE ON {table} BEGIN {gone} END",
        }
    return wanted


def _postgres_index() -> list[str]:
    cases = " ".join(f"WHEN {kind} IS NOT NULL THEN '{kind[0]}'" for kind in TEXTS)
    letter = f"CASE {cases} END"
    made = [
        # Not by to_tsvector: its parser would cut our tokens once more, and positions have an end.
        # Each begins with the letter of its kind: what few notes say is found among them alone,
        # without the pages of a million messages that begin in the same way.
        f"ALTER TABLE {DOCUMENT} ADD COLUMN words tsvector GENERATED ALWAYS AS (array_to_tsvector("
        f"string_to_array({letter} || replace(btrim(tokens), ' ', ' ' || {letter}), ' '))) STORED",
        f"CREATE INDEX {WORDS} ON {DOCUMENT} USING gin (words)",
        # How common the ten thousand most common tokens are: of the usual thousand it takes a word
        # that nobody says for one said often, and walks through all texts to find none.
        f"ALTER TABLE {DOCUMENT} ALTER COLUMN words SET STATISTICS 1000",
    ]
    for kind, (table, _, _) in TEXTS.items():
        made.append(
            f"CREATE FUNCTION {table}_search() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF TG_OP <> 'INSERT' THEN DELETE FROM {DOCUMENT} WHERE {kind} = old.id; END IF;"
            f" IF TG_OP <> 'DELETE' THEN {_note(kind, 'new.id')} END IF; RETURN NULL; END $$"
        )
    return made


def _postgres_triggers() -> dict[str, str]:
    wanted = {}
    for table, columns, searched in TEXTS.values():
        changed = " OR ".join(f"old.{column} IS DISTINCT FROM new.{column}" for column in columns)
        for name, when in (
            ("added", f"AFTER INSERT ON {table} FOR EACH ROW WHEN ({searched.format('new.')})"),
            (
                "changed",
                f"AFTER UPDATE OF {', '.join(columns)} ON {table} FOR EACH ROW WHEN ({changed})",
            ),
            ("gone", f"AFTER DELETE ON {table} FOR EACH ROW"),
        ):
            wanted[f"{table}_search_{name}"] = f"{when} EXECUTE FUNCTION {table}_search()"
    return wanted
