"""Estimate the tokens of a text without a tokenizer, which would have to be downloaded."""

import math
import re

# Scripts of about one token for each character: kana, kanji, hangul, full-width forms.
WIDE_CHARACTER = re.compile(
    "[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def estimate_tokens(text: str) -> int:
    """Return one token for each wide character, and a quarter for each other character."""
    return tokens_of_counts(*count_characters(text))


def count_characters(text: str) -> tuple[int, int]:
    """Return the counts of wide and other characters. They add up over the parts of a text."""
    wide = 0 if text.isascii() else len(WIDE_CHARACTER.findall(text))
    return wide, len(text) - wide


def tokens_of_counts(wide: int, others: int) -> int:
    return wide + math.ceil(others / 4)
