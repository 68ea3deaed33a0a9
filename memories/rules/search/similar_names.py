"""Find names that resemble the words of a query, in spite of typing errors."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from memories.rules.search.query import Query
from memories.rules.search.tokenizer import tokenize

CUTOFF = 0.75  # of difflib's ratio: one wrong letter of five passes
MAX_NAMES = 5
MAX_WORDS = 3  # words of a query that are compared


def words_to_compare(query: Query) -> list[str]:
    """Return the words of a query that may be misspelled names."""
    words = (" ".join(term.needle.split()) for term in query.terms if not term.excluded)
    return [*words, *tokenize(query.person).split(), *tokenize(query.channel).split()][:MAX_WORDS]


def similar_names(words: Iterable[str], names: Sequence[str]) -> list[int]:
    """Return the indexes of the names with a word like one of these, the most similar first."""
    by_word: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        for word in tokenize(name).split():
            by_word.setdefault(word, []).append(index)
    similar = [
        index
        for word in words
        for match in get_close_matches(word, by_word, n=MAX_NAMES, cutoff=CUTOFF)
        for index in by_word[match]
    ]
    return list(dict.fromkeys(similar))[:MAX_NAMES]
