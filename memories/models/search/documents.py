"""The search index: the tokens of each text, and the texts that wait for indexing.

Triggers (`search_triggers.py`) remove the tokens of a text in the statement that changes or deletes
it, and mark it as pending. `pipeline/search/indexing.py` then indexes it again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from django.core.exceptions import EmptyResultSet
from django.db import connections, models
from django.db.models import F
from django.db.models.expressions import RawSQL

from memories.models.access.readers import AudienceQuerySet, Row
from memories.rules.search.tokenizer import KEY_WIDTH, Term

SLOTS = 1024  # texts with the same microsecond
LAST_KEY = 2**63 - 1  # of the year 2255; later days have no texts
MAX_LOOKUPS = 2_000  # tokens times keys; further tokens are checked in the stored text only
WORDS = "memories_searchwords"  # SQLite's FTS5 table; PostgreSQL has a column
# The kinds of texts, and the columns with their keys.
MESSAGE, VERSION, NOTE = "message", "version", "note"
# Forms of a word in the index, each with whether it is only the beginning of a token.
Tokens = tuple[tuple[str, bool], ...]


class SearchDocumentQuerySet(models.QuerySet["SearchDocument"]):
    def members_keys_in_use(self, keys: Sequence[str]) -> list[str]:
        """Return those of these keys of channel members that any text has.

        They are few, since most channels were always public. Each takes one index lookup.
        """
        if not keys:
            return []
        table = SearchDocument._meta.db_table
        values = ", ".join(["(%s)"] * len(keys))
        with connections[self.db].cursor() as cursor:
            cursor.execute(
                f"SELECT column1 FROM (VALUES {values}) AS given WHERE EXISTS (SELECT 1 FROM {table}"
                " WHERE workspace_key = '' AND channel_key = column1)",
                keys,
            )
            return [key for (key,) in cursor.fetchall()]

    def newest_messages(
        self, words: Sequence[str], keys: Iterable[str], until_us: int, limit: int
    ) -> Any:
        """Return the keys of the newest messages with any of these tokens, for ``__in``.

        `visible_to` comes after the limit, which PostgreSQL plans to be ten times as large. For a
        small one it takes words that no text has for frequent, and reads all texts to find none.
        """
        keys = [key for key in keys if key[0] == MESSAGE[0]]
        if not words or not keys:
            return ()
        tokens = _any_of(words, keys)
        table = SearchDocument._meta.db_table
        params: tuple[Any, ...] = ((until_us + 1) * SLOTS, limit)
        if connections[self.db].vendor == "sqlite":
            sql = (
                f"SELECT message FROM {WORDS} JOIN {table} ON {table}.id = {WORDS}.rowid"
                f" WHERE {WORDS} MATCH %s AND {WORDS}.rowid < %s ORDER BY {WORDS}.rowid DESC LIMIT %s"
            )
            return RawSQL(sql, (_fts5_query(keys, tokens), *params))  # noqa: S611
        sql = (
            f"WITH newest AS MATERIALIZED (SELECT message FROM {table} WHERE words @@ %s::tsquery"
            " AND id < %s ORDER BY id DESC LIMIT 10 * %s) SELECT message FROM newest LIMIT %s"
        )
        return RawSQL(sql, (_tsquery(keys, tokens), *params, limit))  # noqa: S611


class SearchDocument(models.Model):
    """The tokens of a text.

    The primary key is its time in microseconds times SLOTS, plus a few if several texts share the
    time. So the order of keys is the order of time. ``message``, ``version`` and ``note`` are no
    foreign keys, since triggers maintain them. In the index each token has the prefix
    ``workspace_key``, and once more ``channel_key``, if given (`tokenizer.audience_key`).
    """

    # Always set explicitly. An auto field, because SQLite then uses the rowid.
    id = models.BigAutoField(primary_key=True)
    message = models.BigIntegerField(null=True, unique=True)
    version = models.BigIntegerField(null=True, unique=True)
    note = models.BigIntegerField(null=True, unique=True)
    workspace_key = models.CharField(max_length=KEY_WIDTH, default="")
    channel_key = models.CharField(max_length=KEY_WIDTH, default="")
    tokens = models.TextField()

    objects = SearchDocumentQuerySet.as_manager()

    class Meta:
        indexes = [
            # SearchDocumentQuerySet.members_keys_in_use.
            models.Index(
                fields=["channel_key"],
                name="search_for_members",
                condition=models.Q(workspace_key=""),
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class SearchPending(models.Model):
    """A text that is not in the index, or not any more."""

    kind = models.CharField(max_length=8)
    text_id = models.BigIntegerField()

    objects = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "text_id"], name="search_pending_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.text_id}"


class SearchableQuerySet(AudienceQuerySet[Row], Generic[Row]):
    """A queryset of texts with a search index."""

    searched_as = ""

    def matching(
        self,
        terms: Iterable[Term],
        keys: Iterable[str],
        *,
        since_us: int | None = None,
        before_us: int | None = None,
        below: int | None = None,
        few: bool = False,
    ) -> Any:
        """Filter rows that match all terms, newest first, with ``found_at``, their index keys.

        ``below`` is an index key where the next page begins. ``few``: most rows are excluded before, so
        PostgreSQL may look up the words of each of the others. Only the index of the audiences
        ``keys`` is read (`tokenizer.audience_key`), so texts of others cost no work. `visible_to`
        still decides which rows a reader may read. For terms of several tokens the stored text
        decides, so SQLite and PostgreSQL give the same hits.
        """
        terms, keys = list(terms), [key for key in keys if key[0] == self.searched_as[0]]
        if not keys:
            return self.none()
        is_sqlite = connections[self.db].vendor == "sqlite"
        included = [term for term in terms if not term.excluded]
        tokens = _tokens(included, selective=not is_sqlite)[: max(1, MAX_LOOKUPS // len(keys))]
        where: list[str] = []
        params: list[Any] = []
        found_in = "instr({}, %s)" if is_sqlite else "strpos({}, %s)"
        for term in terms:
            in_index = term.is_one_token and _tokens([term], selective=False)[0] in tokens
            if in_index and not term.excluded:
                continue
            has = found_in.format(f"{SearchDocument._meta.db_table}.tokens")
            compared = f"{has} = 0" if term.excluded else f"{has} > 0"
            where.append(f"({' OR '.join([compared] * len(term.needles))})")
            params += term.needles
        edges = [(">=", since_us, SLOTS), ("<", before_us, SLOTS), ("<", below, 1)]
        for compare, value, times in edges:
            if value is not None:
                where.append(f"{self._found_at} {compare} %s")
                params.append(min(value * times, LAST_KEY))
        return self._in_index(keys, tokens, where, params, few=few)

    def matching_any(self, words: Iterable[str], keys: Iterable[str]) -> Any:
        """Filter rows with any of these tokens, newest first, as `matching` does."""
        words, keys = list(words), [key for key in keys if key[0] == self.searched_as[0]]
        if not words or not keys:
            return self.none()
        return self._in_index(keys, _any_of(words, keys))

    @property
    def _found_at(self) -> str:
        """The column of the index key."""
        if connections[self.db].vendor == "sqlite":
            return f"{WORDS}.rowid"
        return f"{SearchDocument._meta.db_table}.id"

    def _in_index(
        self,
        keys: Sequence[str],
        tokens: Sequence[Tokens],
        where: Sequence[str] = (),
        params: Sequence[Any] = (),
        *,
        few: bool = False,
    ) -> Any:
        """Filter rows that have all tokens with one of the keys, newest first, with ``found_at``.

        PostgreSQL believes that to compare words is cheap. `+ 0` keeps it from comparing those of
        all texts in the order of their keys. Texts of other kinds are excluded before.
        """
        document, table = SearchDocument._meta.db_table, self.model._meta.db_table
        key, found_at = f"{document}.{self.searched_as}", self._found_at
        if connections[self.db].vendor == "sqlite":
            tables, index_query = [document, WORDS], _fts5_query(keys, tokens)
            joined = [f"{key} = {table}.id", f"{found_at} = {document}.id", f"{WORDS} MATCH %s"]
        else:
            tables, index_query = [document], _tsquery(keys, tokens)
            joined = [f"{key}{'' if few else ' + 0'} = {table}.id", f"{key} IS NOT NULL"]
            joined.append(f"{document}.words @@ %s::tsquery")
        matches = self.order_by().extra(
            select={"found_at": found_at},
            tables=tables,
            where=[*joined, *where],
            params=[index_query, *params],
        )
        return matches.extra(order_by=["-found_at"])

    def count_up_to(self, limit: int) -> int:
        """Return the number of `matching` rows, at most ``limit``.

        With the order of the index SQLite begins with the index. PostgreSQL would sort all hits.
        """
        if connections[self.db].vendor == "sqlite":
            return self[:limit].count()
        return len(self._first(limit, self.order_by().values_list("pk")))

    def newest(self, limit: int) -> list[tuple[int, int]]:
        """Return (key, index key) of the newest `matching` rows."""
        return self._first(limit, self.values_list("pk", "found_at"))

    def newest_with_tokens(self, limit: int) -> list[tuple[int, int, str]]:
        """Return (key, index key, tokens) of the newest `matching` rows."""
        with_tokens = self.extra(select={"tokens": f"{SearchDocument._meta.db_table}.tokens"})
        return self._first(limit, with_tokens.values_list("pk", "found_at", "tokens"))

    def _first(self, limit: int, rows: Any) -> list[Any]:
        """Return the first rows. PostgreSQL plans for three times as many, but stops after these.

        For a small limit it takes words that no text has for frequent, and reads all texts to find none.
        """
        connection = connections[self.db]
        if connection.vendor == "sqlite":
            return list(rows[:limit])
        try:
            sql, params = rows[: 3 * limit].query.sql_with_params()
        except EmptyResultSet:
            return []
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH matches AS MATERIALIZED ({sql}) SELECT * FROM matches LIMIT %s",
                [*params, limit],
            )
            return list(cursor.fetchall())

    def containing(self, column: str, text: str) -> Any:
        """Filter rows with these characters in a column. LIKE treats case differently by database."""
        return self.alias(at=models.functions.StrIndex(F(column), models.Value(text))).filter(
            at__gt=0
        )


def _tokens(terms: Iterable[Term], *, selective: bool) -> list[Tokens]:
    """Return the index tokens of terms. A text has at least one of each tuple."""
    tokens: list[Tokens] = [
        ((word, False),)
        for term in terms
        for word in (term.selective_words if selective else term.words)
    ]
    tokens += [
        ((word, True), *((form, False) for form in term.stem_words))
        for term in terms
        for word in term.beginnings
    ]
    return list(dict.fromkeys(tokens))


def _any_of(words: Sequence[str], keys: Sequence[str]) -> list[Tokens]:
    """Return the tokens of a search for any of these words, as many as may be looked up."""
    return [tuple((word, False) for word in words[: max(1, MAX_LOOKUPS // len(keys))])]


def _fts5_query(keys: Iterable[str], tokens: Iterable[Tokens]) -> str:
    written = ('"{}{}"', '"{}{}" *')
    return " OR ".join(_all_of(key, tokens, (" AND ", " OR "), written) for key in keys)


def _tsquery(keys: Iterable[str], tokens: Iterable[Tokens]) -> str:
    return " | ".join(_all_of(key, tokens, (" & ", " | "), ("'{}{}'", "'{}{}':*")) for key in keys)


def _all_of(
    key: str, tokens: Iterable[Tokens], joins: tuple[str, str], written: tuple[str, str]
) -> str:
    """Return a condition for all tokens with a key, or for the key alone without tokens.

    The key alone is in each text of its audience. Tokens have no ASCII characters besides letters
    and digits, so they need no quoting.
    """
    all_of, any_of = joins
    conditions = [
        f"({any_of.join(written[begins].format(key, token) for token, begins in forms)})"
        for forms in tokens
    ]
    return f"({all_of.join(conditions or [written[0].format(key, '')])})"
