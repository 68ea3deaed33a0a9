"""The revision: a number that changes with all data that a context shows or its rights rest on.

Triggers (`revision_triggers.py`) change it, so that a change by any code, by the admin and by SQL
counts. The API compares it to answer 304 without building the context.
"""

import secrets

from django.db import connections, models, transaction
from django.db.models.expressions import RawSQL

MAX_ROWS = 1_000  # a sum over these takes less than a millisecond
REVISED = "memoryhub.revised"  # PostgreSQL's setting of a transaction that has added a row


class RevisionQuerySet(models.QuerySet["Revision"]):
    def current(self) -> RawSQL:
        """Return the revision as an expression, so that a query may read it together with rows.

        After each committed change it has a value that it never had before.
        """
        columns = "sum(number)"
        if connections[self.db].vendor == "postgresql":
            # A later change in the transaction of this query, if there is one, adds another row.
            columns = f"concat(sum(number), set_config('{REVISED}', '', true))"
        return RawSQL(f"SELECT {columns} FROM {Revision._meta.db_table}", ())  # noqa: S611

    @transaction.atomic
    def prune(self) -> bool:
        """Replace the rows by a new one if they are many. Return if so.

        Without the new row the sum might return to that of a time without these rows.
        """
        if self.count() <= MAX_ROWS:
            return False
        self.all().delete()
        self.create(number=secrets.randbits(53))
        return True


class Revision(models.Model):
    """A random number for a change. The sum of all rows is the revision.

    SQLite has one row, which each change overwrites. On PostgreSQL each transaction with a change
    adds a row: a shared row would make writers wait for each other, and the value of a sequence is
    visible before the commit. The numbers are random, so that neither a restore nor `prune` brings
    back an earlier sum.
    """

    number = models.BigIntegerField()

    objects = RevisionQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.number)
