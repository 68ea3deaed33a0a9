"""Report a database that accepts no connection."""

from django.db import OperationalError, connection


def connection_problem() -> str:
    """Return why no connection to the database is possible, in one line, or "" if there is one."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        return f"The database does not answer: {reason}. Check that it runs, and DATABASE_URL."
    return ""
