"""Runs of words that one text quotes from another, and the text without them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.redaction.shingles import REDACTED, QuoteMatcher, normalize, runs, short_text

MESSAGE = "We will deploy the blue gate on Friday, after Mika has seen it."
JAPANESE = "倉庫九番の銅の門は金曜日の午後三時に出荷すると決めました。"


def matcher_of(*texts):
    return QuoteMatcher(frozenset().union(*map(runs, texts)))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (MESSAGE, f"{REDACTED}."),
        ("- so we will deploy the blue gate on Friday then", f"- so {REDACTED} then"),
        ("WE WILL DEPLOY — the blue-gate: on friday", REDACTED),
        ("we will deploy\nthe blue gate on friday\nor so", f"{REDACTED}\n{REDACTED}\nor so"),
        ("we will deploy\r\nthe blue gate on friday", f"{REDACTED}\r\n{REDACTED}"),
        ("ｗｅ　ｗｉｌｌ　ｄｅｐｌｏｙ　ｔｈｅ　ｂｌｕｅ　ｇａｔｅ　ｏｎ　ｆｒｉｄａｙ", REDACTED),
        ("the blue gate on Friday after Mika", "the blue gate on Friday after Mika"),
        ("we deploy the blue gate on Friday after", "we deploy the blue gate on Friday after"),
        ("will deploy the blue gate on Thursday after", "will deploy the blue gate on Thursday after"),
        (f"{MESSAGE} {MESSAGE} no", f"{REDACTED}. {REDACTED}. no"),
        (f"{MESSAGE} no {MESSAGE}", f"{REDACTED}. no {REDACTED}."),
        ("", ""),
        (REDACTED, REDACTED),
    ],
)  # fmt: skip
def test_a_quote_of_eight_words_is_redacted(text, left):
    assert matcher_of(MESSAGE).redact(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (JAPANESE, f"{REDACTED}。"),
        ("- 銅の門は、金曜日の午後三時に出荷", f"- {REDACTED}"),
        ("- 銅の門は金曜日の午後", "- 銅の門は金曜日の午後"),
        ("銅の門は\n金曜日の午後三時に出荷する", f"{REDACTED}\n{REDACTED}"),
    ],
)
def test_japanese_is_counted_in_letters(text, left):
    assert matcher_of(JAPANESE).redact(text) == left


def test_half_width_letters_and_marks_are_the_same():
    matcher = matcher_of("デプロイの手順はガイドブックの三頁にあります")
    assert matcher.redact("→ ﾃﾞﾌﾟﾛｲの手順はｶﾞｲﾄﾞﾌﾞｯｸの三頁") == f"→ {REDACTED}"


def test_words_and_japanese_mixed():
    matcher = matcher_of("リリースは Tuesday の 15:00 に hashikura で行います")
    assert matcher.redact("予定：リリースはTuesdayの15:00に行う") == f"予定：{REDACTED}行う"
    assert matcher.redact("リリースは水曜日") == "リリースは水曜日"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Copper gate, Friday!", "copper gate friday"),
        ("ok then", ""),
        ("はい、わかりました", "は い わ か り ま し た"),
        ("はい", ""),
        (MESSAGE, ""),  # it has runs
        (":wave: ok", ""),
    ],
)
def test_short_texts_match_as_a_whole(text, key):
    assert short_text(text) == key
    if key:
        assert (
            QuoteMatcher(frozenset(), frozenset([key]))
            .redact(f"so: {text}")
            .startswith(f"so: {REDACTED}")
        )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Ask Quillon Vane, please", f"Ask {REDACTED}, please"),
        ("ＱＵＩＬＬＯＮ\u3000vane", REDACTED),
        ("quillon has two vanes", "quillon has two vanes"),
        ("@will and ＠Will will see to it", f"@{REDACTED} and ＠{REDACTED} will see to it"),
        ("田中さんが", f"{REDACTED}さんが"),
    ],
)
def test_a_name_matches_as_a_whole_word_or_as_a_mention(text, left):
    names = frozenset(map(normalize, ("Quillon Vane", "田中")))
    matcher = QuoteMatcher(frozenset(), names, frozenset([normalize("Will")]))
    assert matcher.redact(text) == left
    assert bool(matcher.find_in(text)) == (REDACTED in left and "will" not in text)


WORDS = st.lists(
    st.sampled_from([*"abcdefghij", "銅", "門", "は", "金", "曜", "ab12"]), max_size=60
)
SPACES = st.sampled_from([" ", "  ", ", ", "\n", " — ", "、"])


@given(WORDS, WORDS, SPACES, SPACES)
def test_nothing_that_is_left_quotes(words, text, between, separator):
    matcher = matcher_of(between.join(words))
    left = matcher.redact(separator.join(text))
    assert not matcher.find_in(left)
    assert not matcher.spans(left)
    assert left.count("\n") == separator.join(text).count("\n")
    assert matcher.redact(left) == left


@pytest.mark.slow
@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_found_in_another(before, message, after):
    text = f"{before}\n{message}\n{after}"
    matcher = matcher_of(message)
    assert runs(message) <= runs(text)
    assert matcher.find_in(text) == runs(message)
    spans = matcher.spans(text)
    assert bool(spans) == bool(runs(message))
    assert all(0 <= begin < end <= len(text) for begin, end in spans)
    assert spans == sorted(spans)
