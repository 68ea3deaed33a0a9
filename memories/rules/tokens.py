"""How many tokens a text takes, without a tokenizer to download."""

import math
import re

# Scripts whose characters take about one token each: kana, kanji, hangul, full-width forms.
WIDE = re.compile(
    "[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def estimate(text: str) -> int:
    """Tokens of a text: one a wide character, a quarter (rounded up) for everything else."""
    wide = 0 if text.isascii() else sum(1 for _ in WIDE.finditer(text))
    return wide + math.ceil((len(text) - wide) / 4)
