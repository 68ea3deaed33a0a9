"""How many tokens a text takes, without a tokenizer to download."""

import math
import re

# Scripts whose characters take about one token each: kana, kanji, hangul, full-width forms.
WIDE_CHARACTER = re.compile(
    "[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def estimate_tokens(text: str) -> int:
    """Tokens of a text: one a wide character, a quarter (rounded up) for everything else."""
    return tokens_of_counts(*count_characters(text))


def count_characters(text: str) -> tuple[int, int]:
    """(wide characters, all others): of texts that stand together they add up."""
    wide = 0 if text.isascii() else sum(1 for _ in WIDE_CHARACTER.finditer(text))
    return wide, len(text) - wide


def tokens_of_counts(wide: int, others: int) -> int:
    return wide + math.ceil(others / 4)
