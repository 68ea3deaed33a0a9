import pytest

from memories.rules.ingest.invisible import mark_invisible, strip_invisible

WALES = "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"


@pytest.mark.parametrize(
    "kept",
    [
        "plain, with\ttabs\nand lines",
        "👩‍👩‍👧 family",  # joined by ZWJ
        "می‌خواهم",  # ZWNJ is spelling
        WALES,
        "❤️ and ☎︎",
        "葛\U000e0100城",  # a variant that a name is written with
        "שלום 日本語",
    ],
)
def test_writing_is_kept(kept: str) -> None:
    assert strip_invisible(kept) == kept
    assert mark_invisible(kept) == kept


@pytest.mark.parametrize(
    ("raw", "cleaned", "shown"),
    [
        ("a\u202eb", "ab", "a⟦U+202E⟧b"),
        ("a\u2066b\u2069", "ab", "a⟦U+2066⟧b⟦U+2069⟧"),
        ("a\x00b", "ab", "a⟦U+0000⟧b"),
        ("a\ud800b", "ab", "a⟦U+D800⟧b"),
        ("a\u200bb\ufeff", "ab", "a⟦U+200B⟧b⟦U+FEFF⟧"),
        ("hi\U000e0048\U000e0049", "hi", "hi⟦U+E0048 ×2⟧"),
        ("🏴\U000e0041\U000e0042", "🏴", "🏴⟦U+E0041 ×2⟧"),
        ("x\ufe00\ufe01\ufe02", "x\ufe00", "x\ufe00⟦U+FE01 ×2⟧"),
        ("x\U000e0100", "x", "x⟦U+E0100⟧"),
        (WALES + "\U000e0041", WALES, WALES + "⟦U+E0041⟧"),
    ],
)
def test_hidden_text_is_dropped_for_models_and_marked_for_people(
    raw: str, cleaned: str, shown: str
) -> None:
    assert strip_invisible(raw) == cleaned
    assert mark_invisible(raw) == shown
