"""Compare a text with an earlier one by their words, figures and negations."""

import re
from functools import lru_cache

from memories.rules.memory.sources import search_words
from memories.rules.salience import is_figure

_REPEATED_SHARE = 0.9  # of the words of the earlier text
_TEXTS = 5_000  # whose words a process keeps: each new line is compared with the same lines
_NEGATION = re.compile(r"\b(?:not?|never|cannot)\b|n['’]t\b|ない|ません|なし", re.IGNORECASE)


def repeats(text: str, earlier: str) -> bool:
    """Return whether a text contains nine of ten words, and all figures, of an earlier text."""
    words = _words_of(earlier)
    shared = words & _words_of(text)
    return len(shared) >= _REPEATED_SHARE * len(words) and _figures_of(earlier) <= shared


def brings_news(text: str, earlier: str) -> bool:
    """Return whether a text has a figure that an earlier text lacks, or only one of them has a negation."""
    if not _figures_of(text) <= _words_of(earlier):
        return True
    return bool(_NEGATION.search(text)) is not bool(_NEGATION.search(earlier))


def _figures_of(text: str) -> set[str]:
    return set(filter(is_figure, _words_of(text)))


@lru_cache(maxsize=_TEXTS)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(search_words(text))
