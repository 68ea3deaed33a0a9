"""What is searched: the words of each text, kept beside it, and which texts still wait for that.

Triggers (`models/search_triggers.py`) take the words of a text out in the very statement that
changes or deletes it, whoever does so, and note it here; `pipeline/search.py` then reads it anew.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic

from django.db import connections, models
from django.db.models import F

from memories.models.access.readers import AudienceQuerySet, Row
from memories.rules.search.tokenizer import KEY_WIDTH, Term

SLOTS = 1024  # texts of the same microsecond
MOST_LOOKUPS = 2_000  # tokens times keys; of more tokens the stored text alone says where they are
WORDS = "memories_searchwords"  # SQLite's index of the tokens; PostgreSQL has it in a column
# What is searched, and by which column its words are found again.
MESSAGE, VERSION, NOTE = "message", "version", "note"


class SearchDocumentQuerySet(models.QuerySet["SearchDocument"]):
    def members_keys_in_use(self, keys: Sequence[str]) -> list[str]:
        """Of these keys of audiences of a channel's members those that any text has: few, for most
        channels were always public. A look into an index for each."""
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


class SearchDocument(models.Model):
    """The tokens of one text. The key is its moment: microseconds times SLOTS, and a few more where
    several share one, so the newest are the highest keys, and an index hands them out in order.

    ``message``, ``version`` and ``note`` are no foreign keys: triggers keep them, and a check would
    only look twice. In the index each token stands behind ``workspace_key``, and once more behind
    ``channel_key``, where these are given (`rules.search.audience_key`).
    """

    # Always given; of this kind because SQLite then finds a row by it without an index beside.
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


class SearchableQuerySet(AudienceQuerySet[Row], Generic[Row]):
    """For the querysets of texts that are searched."""

    searched_as = ""

    def matching(
        self,
        terms: Iterable[Term],
        keys: Iterable[str],
        *,
        since_us: int | None = None,
        before_us: int | None = None,
        below: int | None = None,
    ) -> Any:
        """Those that hold all terms, newest first; each row then has ``found_at``, its key in the
        index. ``below`` such a key go those that come after it.

        The index is read for the audiences of ``keys`` alone (`rules.search.audience_key`), so texts
        of others cost no work. Which rows a reader may read is still for `visible_to` to say.
        The index says where the tokens are; of several, the stored text says whether they stand there
        as asked. So SQLite and PostgreSQL find the same.
        """
        terms, keys = list(terms), [key for key in keys if key[0] == self.searched_as[0]]
        if not keys:
            return self.none()
        document = SearchDocument._meta.db_table
        found_at = f"{document}.id"
        tables = [document]
        where = [f"{document}.{self.searched_as} = {self.model._meta.db_table}.id"]
        is_sqlite = connections[self.db].vendor == "sqlite"
        included = [term for term in terms if not term.excluded]
        tokens = _tokens(included, selective=not is_sqlite)[: max(1, MOST_LOOKUPS // len(keys))]
        if is_sqlite:
            tables.append(WORDS)
            found_at = f"{WORDS}.rowid"
            where += [f"{found_at} = {document}.id", f"{WORDS} MATCH %s"]
            index_query = _fts5_query(keys, tokens)
            found_in = "instr({}, %s)"
        else:
            where.append(f"{document}.words @@ %s::tsquery")
            index_query = _tsquery(keys, tokens)
            found_in = "strpos({}, %s)"
        params: list[Any] = [index_query]
        for term in terms:
            is_known = term.is_one_token and _tokens([term], selective=False)[0] in tokens
            if is_known and not term.excluded:
                continue
            has = found_in.format(f"{document}.tokens")
            where.append(f"{has} = 0" if term.excluded else f"{has} > 0")
            params.append(term.needle)
        edges = [(">=", since_us, SLOTS), ("<", before_us, SLOTS), ("<", below, 1)]
        for compare, value, times in edges:
            if value is not None:
                where.append(f"{found_at} {compare} %s")
                params.append(value * times)
        matches = self.order_by().extra(
            select={"found_at": found_at}, tables=tables, where=where, params=params
        )
        return matches.extra(order_by=["-found_at"])

    def matching_any(self, words: Iterable[str], keys: Iterable[str]) -> Any:
        """Those that hold any of these tokens, newest first; rows and keys are as in `matching`."""
        keys = [key for key in keys if key[0] == self.searched_as[0]]
        if not keys:
            return self.none()
        words = list(words)[: max(1, MOST_LOOKUPS // len(keys))]
        document = SearchDocument._meta.db_table
        found_at, tables = f"{document}.id", [document]
        where = [f"{document}.{self.searched_as} = {self.model._meta.db_table}.id"]
        if connections[self.db].vendor == "sqlite":
            tables.append(WORDS)
            found_at = f"{WORDS}.rowid"
            where += [f"{found_at} = {document}.id", f"{WORDS} MATCH %s"]
            index_query = " OR ".join(f'"{key}{word}"' for key in keys for word in words)
        else:
            where.append(f"{document}.words @@ %s::tsquery")
            index_query = " | ".join(f"'{key}{word}'" for key in keys for word in words)
        matches = self.order_by().extra(
            select={"found_at": found_at}, tables=tables, where=where, params=[index_query]
        )
        return matches.extra(order_by=["-found_at"])

    def counted(self, most: int) -> int:
        """Of what is `matching`: how many, up to so many. In the order of its index SQLite begins with
        the words, else with the rows; PostgreSQL would sort all hits for an order."""
        in_order = connections[self.db].vendor == "sqlite"
        return (self if in_order else self.order_by())[:most].count()

    def tokens_found(self) -> Any:
        """Of what is `matching`: (key, key in the index, tokens)."""
        with_tokens = self.extra(select={"tokens": f"{SearchDocument._meta.db_table}.tokens"})
        return with_tokens.values_list("pk", "found_at", "tokens")

    def holding(self, column: str, words: str) -> Any:
        """Those with these very characters in a column: LIKE knows cases, and differently."""
        return self.alias(at=models.functions.StrIndex(F(column), models.Value(words))).filter(
            at__gt=0
        )


def _tokens(terms: Iterable[Term], *, selective: bool) -> list[tuple[str, bool]]:
    """The tokens by which an index finds these, and whether a text's token may be longer."""
    tokens = [
        (word, False) for term in terms for word in (term.telling if selective else term.words)
    ]
    tokens += [(word, True) for term in terms for word in term.beginnings]
    return list(dict.fromkeys(tokens))


def _fts5_query(keys: Iterable[str], tokens: Iterable[tuple[str, bool]]) -> str:
    written = ('"{}{}"', '"{}{}" *')
    return " OR ".join(_all_of(key, tokens, " AND ", written) for key in keys)


def _tsquery(keys: Iterable[str], tokens: Iterable[tuple[str, bool]]) -> str:
    return " | ".join(_all_of(key, tokens, " & ", ("'{}{}'", "'{}{}':*")) for key in keys)


def _all_of(
    key: str, tokens: Iterable[tuple[str, bool]], also: str, written: tuple[str, str]
) -> str:
    """All these tokens behind a key; the key alone, which stands in each text of its audience, where
    there are none. Nothing in a token ends a quotation: it has letters and digits alone."""
    conditions = [written[begins].format(key, token) for token, begins in tokens]
    return f"({also.join(conditions or [written[0].format(key, '')])})"
