"""Triggers that check what no constraint can: the scope id of a memory names its own channel.

They are removed before each `migrate` and created after it. SQLite drops the triggers of a table
that a migration rebuilds, and does not rename a table that a trigger reads.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

MEMORY, CHANNEL = "memories_memory", "memories_channel"
NAME = f"{MEMORY}_place"
_IS_INVALID = (
    f"new.channel_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {CHANNEL} c"
    " WHERE c.id = new.channel_id AND c.workspace_id = new.workspace_id AND new.scope_id ="
    " c.slack_id || CASE new.scope WHEN 'thread' THEN ':' || new.thread_ts ELSE '' END)"
)
_ERROR = "memory_place: the scope id is not that of the channel"
_EVENTS = {
    f"{NAME}_added": "INSERT",
    f"{NAME}_changed": "UPDATE OF workspace_id, scope, scope_id, channel_id, thread_ts",
}


def install(connection: BaseDatabaseWrapper) -> None:
    """Create the triggers again. Do nothing if the tables do not exist."""
    if not {MEMORY, CHANNEL} <= set(connection.introspection.table_names()):
        return
    remove(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name, event in _EVENTS.items():
                cursor.execute(
                    f"CREATE TRIGGER {name} BEFORE {event} ON {MEMORY} WHEN {_IS_INVALID}"
                    f" BEGIN SELECT RAISE(ABORT, '{_ERROR}'); END"
                )
            return
        cursor.execute(
            f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {_IS_INVALID}"
            f" THEN RAISE EXCEPTION '{_ERROR}' USING ERRCODE = 'check_violation';"
            " END IF; RETURN new; END $$"
        )
        for name, event in _EVENTS.items():
            cursor.execute(
                f"CREATE TRIGGER {name} BEFORE {event} ON {MEMORY}"
                f" FOR EACH ROW EXECUTE FUNCTION {NAME}()"
            )


def remove(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in _EVENTS:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        else:
            cursor.execute(f"DROP FUNCTION IF EXISTS {NAME}() CASCADE")
