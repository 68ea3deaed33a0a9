"""The cache that counts logins."""

from datetime import datetime

from django.core.cache.backends.db import DatabaseCache
from django.db import connections
from django.db.backends.utils import CursorWrapper


class LoginCache(DatabaseCache):
    """A database cache that deletes only expired entries, even if it has many.

    allauth limits the new entries of each address, and each entry expires within minutes.
    """

    _table: str  # django-stubs lack it

    def _cull(self, db: str, cursor: CursorWrapper, now: datetime, num: int) -> None:
        operations = connections[db].ops
        table, expires = operations.quote_name(self._table), operations.quote_name("expires")
        cursor.execute(
            f"DELETE FROM {table} WHERE {expires} < %s",
            [operations.adapt_datetimefield_value(now)],
        )
