import pytest

from memories.rules.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("日本語", 3),
        ("ﾃｽﾄ、。", 5),
        ("한국어", 3),
        ("𠮷野家", 3),
        ("PR を見た", 4),
        ("naïve", 2),
    ],
    ids=["empty", "one", "four", "five", "kanji", "half-width", "hangul", "rare", "mixed", "latin"],
)
def test_the_estimate_of_a_text(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_the_sum_of_parts_is_an_upper_bound() -> None:
    parts = ["- 2026-11-02 Ana: ship it", "\n", "- 来週の金曜日まで", " [3]"]
    assert estimate_tokens("".join(parts)) <= sum(map(estimate_tokens, parts))
