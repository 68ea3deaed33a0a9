"""What is searched: the words of each text, kept beside it, and which texts still wait for that.

Triggers (`models/search_triggers.py`) take the words of a text out in the very statement that
changes or deletes it, whoever does so, and note it here; `pipeline/search.py` then reads it anew.
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from django.db import connections, models
from django.db.models import F

from memories.rules.search import Term, label

Row = TypeVar("Row", bound=models.Model)

SLOTS = 1024  # texts of the same microsecond
WORDS = "memories_searchwords"  # SQLite's index of the tokens; PostgreSQL has it in a column
# What is searched, and by which column its words are found again.
MESSAGE, VERSION, NOTE = "message", "version", "note"


class SearchDocument(models.Model):
    """The tokens of one text. The key is its moment: microseconds times SLOTS, and a few more where
    several share one, so the newest are the highest keys, and an index hands them out in order.

    The three keys are no foreign keys: triggers keep them, and a check would only look twice.
    """

    # Always given; of this kind because SQLite then finds a row by it without an index beside.
    id = models.BigAutoField(primary_key=True)
    message = models.BigIntegerField(null=True, unique=True)
    version = models.BigIntegerField(null=True, unique=True)
    note = models.BigIntegerField(null=True, unique=True)
    tokens = models.TextField()

    objects = models.Manager()

    def __str__(self) -> str:
        return str(self.pk)


class SearchPending(models.Model):
    """A text whose words are not in the index (any more)."""

    kind = models.CharField(max_length=8)
    text_id = models.BigIntegerField()

    objects = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "text_id"], name="search_pending_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.text_id}"


class SearchableQuerySet(models.QuerySet[Row], Generic[Row]):
    """For the querysets of texts that are searched."""

    searched_as = ""

    def matching(
        self,
        terms: Iterable[Term],
        *,
        channel: int | None = None,
        since_us: int | None = None,
        before_us: int | None = None,
        below: int | None = None,
    ) -> Any:
        """Those that hold all terms, newest first; each row then has ``found_at``, its key in the
        index. ``below`` such a key go those that come after it.

        The index says where the tokens are; of several, the stored text says whether they stand there
        as asked. So SQLite and PostgreSQL find the same.
        """
        terms = list(terms)
        document = SearchDocument._meta.db_table
        key = f"{document}.id"
        tables = [document]
        where = [f"{document}.{self.searched_as} = {self.model._meta.db_table}.id"]
        kind = self.searched_as[0]
        place = [] if channel is None else [label("c", channel)]
        asked = [one for one in terms if not one.excluded]
        # Tokens are letters and digits alone: nothing in them ends a quotation.
        if connections[self.db].vendor == "sqlite":
            tables.append(WORDS)
            key = f"{WORDS}.rowid"
            where += [f"{key} = {document}.id", f"{WORDS} MATCH %s"]
            words = [label(kind), *place, *(word for one in asked for word in one.words)]
            all_of = _all_of(words, asked, "AND", '"{}"', '"{}" *')
            found_in = "instr({}, %s)"
        else:
            where.append(f"{document}.words @@ %s::tsquery")
            words = [*place, *(word for one in asked for word in one.telling)]
            words = words if asked else [*words, label(kind)]
            all_of = _all_of(words, asked, "&", f"'{kind}{{}}'", f"'{kind}{{}}':*")
            found_in = "strpos({}, %s)"
        params: list[Any] = [all_of]
        for one in terms:
            if one.is_one_token and not one.excluded:
                continue
            has = found_in.format(f"{document}.tokens")
            where.append(f"{has} = 0" if one.excluded else f"{has} > 0")
            params.append(one.needle)
        edges = [(">=", since_us, SLOTS), ("<", before_us, SLOTS), ("<", below, 1)]
        for compare, value, times in edges:
            if value is not None:
                where.append(f"{key} {compare} %s")
                params.append(value * times)
        found = self.order_by().extra(
            select={"found_at": key}, tables=tables, where=where, params=params
        )
        return found.extra(order_by=["-found_at"])

    def tokens_found(self) -> Any:
        """Of what is `matching`: (key, key in the index, tokens)."""
        with_tokens = self.extra(select={"tokens": f"{SearchDocument._meta.db_table}.tokens"})
        return with_tokens.values_list("pk", "found_at", "tokens")

    def holding(self, column: str, words: str) -> Any:
        """Those with these very characters in a column: LIKE knows cases, and differently."""
        return self.alias(at=models.functions.StrIndex(F(column), models.Value(words))).filter(
            at__gt=0
        )


def _all_of(
    words: Iterable[str], asked: Iterable[Term], also: str, whole: str, beginning: str
) -> str:
    """All these words and all beginnings of what is asked, as an index wants them written."""
    written = [whole.format(word) for word in words]
    written += [beginning.format(word) for one in asked for word in one.beginnings]
    return f" {also} ".join(dict.fromkeys(written))
