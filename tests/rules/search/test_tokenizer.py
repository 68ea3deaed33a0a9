"""The tokens of texts, and the matches of terms."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.redaction.shingles import fold
from memories.rules.search import tokenizer
from memories.rules.search.query import parse
from memories.rules.search.snippet import snippet
from memories.rules.search.tokenizer import (
    Audience,
    audience_key,
    matches_terms,
    parse_term,
    spans,
    tokenize,
    tokenize_with_stems,
    without_stems,
)

LETTERS = "ab1 -_、。・\n日本移行ーカガ한글éß𠮷"
TEXTS = st.text(st.sampled_from(LETTERS) | st.characters(exclude_categories=["Cs", "Cc"]))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ""),
        ("… !?", ""),
        ("Deploy it", " deploy it "),
        ("東京オフィス", " 東京 京オ オフ フィ ィス ス "),
        ("API移行を", " api 移行 行を を "),
        ("ﾘﾘｰｽ", " リリ リー ース ス "),
        ("ｶﾞｽ", " ガス ス "),
        ("１２月", " 12 月 "),
        ("マーク・トウェイン", " マー ーク ク トウ ウェ ェイ イン ン "),
        ("snake_case v1.2", " snake case v1 2 "),
        ("Straße", " strasse "),
        ("𠮷野", " 𠮷野 野 "),
        ("a" * 61, f" {'a' * 60} a "),
    ],
)
def test_texts_are_cut_into_tokens(text: str, tokens: str) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize(
    ("typed", "text", "is_match"),
    [
        # Japanese: anywhere, of one letter and more
        ("日", "金曜日です", True),
        ("日", "日曜", True),
        ("日", "金曜です", False),
        ("移行", "来月のデータ移行計画", True),
        ("移行", "移 行", False),
        ("移行計画", "データ移行計画書", True),
        ("移行計画", "移行の計画", False),
        ("リリース", "ﾘﾘｰｽした", True),
        ("ｶﾞｽ", "ガス代", True),
        ("カス", "ガス代", False),
        ("が", "か", False),
        # words: by their beginnings, short ones whole
        ("deploy", "We deployed it", True),
        ("deploy", "undeployed", False),
        ("Deploy", "DEPLOY", True),
        ("it", "it is", True),
        ("it", "italy", False),
        ("ok", "OK!", True),
        ("c", "in C, so", True),
        ("c", "cc", False),
        ("v1.2", "at v1.2 now", True),
        ("v1.2", "at v1.25 now", False),
        ("foo-bar", "foo bar", True),
        ("foo-bar", "foo and bar", False),
        # both
        ("api移行", "API移行を", True),
        ("api移行", "API の移行", False),
        ("移行api", "移行API", True),
        ("移行api", "移行計画API", False),
        ("日api", "今日API", True),
    ],
)
def test_matches_of_a_word(typed: str, text: str, is_match: bool) -> None:
    term = parse_term(typed)
    assert term is not None
    assert matches_terms(tokenize(text), [term]) is is_match
    assert bool(spans(text, [term])) is is_match


@pytest.mark.parametrize(
    ("typed", "text", "is_match"),
    [
        ("launching", "We launch on Friday", True),
        ("launched", "before launching", True),
        ("price", "the pricing page", True),
        ("studies", "one study", True),
        ("planning", "a planet", False),
        ("going", "a goal", False),
        ('"launching"', "We launch on Friday", False),
        ("launching*", "We launch on Friday", False),
        ("-launching", "We launch on Friday", True),
        ("Größen", "die Größe", False),
        ("移行", "移転", False),
    ],
)
def test_inflected_english_words_match(typed: str, text: str, is_match: bool) -> None:
    [term] = parse(typed).terms
    assert matches_terms(tokenize_with_stems(text), [term]) is is_match
    if not term.excluded:
        assert bool(spans(text, [term])) is is_match


def test_stems_follow_the_words() -> None:
    text = "Launched launches 移行 launching pricing"
    assert (
        tokenize_with_stems(text) == " launched launches 移行 行 launching pricing §launch §price "
    )
    assert without_stems(tokenize_with_stems(text)) == tokenize(text).split()
    assert tokenize_with_stems("launch launched") == " launch launched "
    assert tokenize_with_stems("") == ""


@pytest.mark.parametrize(
    ("typed", "options", "text", "is_match"),
    [
        ("deploy", {"exact": True}, "deployed", False),
        ("deploy", {"exact": True}, "a deploy.", True),
        ("next friday", {"exact": True}, "Next, Friday", True),
        ("next friday", {"exact": True}, "friday next", False),
        ("移行 計画", {"exact": True}, "移行、計画書", True),
        ("it*", {"begins": True}, "italy", True),
        ("it", {"excluded": True}, "italy", True),
        ("it", {"excluded": True}, "it", False),
    ],
)
def test_quotations_beginnings_and_exclusions(
    typed: str, options: dict[str, bool], text: str, is_match: bool
) -> None:
    term = parse_term(typed, **options)
    assert term is not None
    assert matches_terms(tokenize(text), [term]) is is_match


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("東京", ("東京",)),
        ("請求書", ("請求",)),
        ("お願い", ("お願",)),
        ("API移行を", ("api", "移行")),
        ("to and fro", ("to", "and", "fro")),
    ],
)
def test_of_pairs_of_letters_only_the_rarest_is_selective(
    typed: str, words: tuple[str, ...]
) -> None:
    assert parse_term(typed, exact=True).selective_words == words


def test_text_without_a_letter_is_no_term() -> None:
    assert parse_term("") is parse_term("!?…") is parse_term("___") is None


def test_the_beginning_of_a_very_long_text_is_found() -> None:
    tokens = tokenize("begin " + "あいうえお" * 60_000 + " end")
    assert len(tokens) <= tokenizer.MAX_STORED_LENGTH and tokens.endswith(" ")
    assert " begin " in tokens and " end " not in tokens


def test_the_different_tokens_of_a_text_fit_into_an_index() -> None:
    letters = [chr(0x20000 + number) for number in range(300)]
    pairs = " ".join(first + second for first in letters for second in letters)
    tokens = tokenize(pairs).split()
    size = sum(len(token.encode()) + tokenizer.KEY_WIDTH for token in set(tokens))
    assert tokenizer.MAX_BYTES * 0.9 < size <= tokenizer.MAX_BYTES
    assert tokens == tokenize(pairs[: 3 * len(tokens)]).split()[: len(tokens)]


def test_no_key_of_an_audience_begins_another() -> None:
    keys = {
        audience_key(kind, audience, pk)
        for kind in ("message", "version", "note")
        for audience in Audience
        for pk in (1, 17, 1_000_000)
    }
    assert len(keys) == 3 * len(Audience) * 3
    assert {len(key) for key in keys} == {tokenizer.KEY_WIDTH}
    assert all(key.isascii() and key.isalnum() and key == key.lower() for key in keys)


@given(TEXTS, TEXTS)
def test_tokens_and_spans_match_the_same_texts(typed: str, text: str) -> None:
    """The tokens match exactly where the words occur in the text itself."""
    for exact in (False, True):
        term = parse_term(typed, exact=exact)
        if term is not None:
            assert matches_terms(tokenize_with_stems(text), [term]) == bool(spans(text, [term]))
            if not term.stem:
                in_text = re.search(term.pattern, fold(text)[0]) is not None
                assert matches_terms(tokenize(text), [term]) == in_text


@given(TEXTS, st.integers(0, 20), st.integers(1, 20))
def test_a_piece_of_a_japanese_text_is_found_in_it(text: str, at: int, length: int) -> None:
    term = parse_term(piece) if (piece := text[at : at + length]) else None
    if term is not None and re.fullmatch(f"[{tokenizer.WIDE}]+", piece):
        assert matches_terms(tokenize(text), [term]) or fold(text)[0].find(fold(piece)[0]) < 0


@given(TEXTS)
def test_index_tokens_of_a_match_are_tokens_of_the_text(text: str) -> None:
    """Each index token of a term is a token of the text, or the beginning of one."""
    tokens = tokenize(text).split()
    for piece in text.split():
        term = parse_term(piece)
        if term is not None and matches_terms(tokenize(text), [term]):
            assert set(term.words) <= set(tokens)
            assert all(any(t.startswith(b) for t in tokens) for b in term.beginnings)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_snippets_are_words_of_the_text(text: str, typed: list[str]) -> None:
    terms = [term for term in map(parse_term, typed) if term is not None]
    pieces = snippet(text, terms, 30)
    line = " ".join(text.split())
    shown = "".join(piece.text for piece in pieces)
    assert shown.removeprefix("… ").removesuffix(" …") in line or line in shown
    if spans(line, terms):
        assert any(piece.hit and piece.text for piece in pieces)


def test_a_snippet_begins_shortly_before_the_first_hit() -> None:
    text = "one two three " * 30 + "the 移行 of <b>March</b> " + "more of it " * 40
    pieces = snippet(text, [parse_term("移行"), parse_term("march")])
    assert pieces[0].text == "… " and pieces[-1].text == " …"
    assert [piece.text for piece in pieces if piece.hit] == ["移行", "March"]
    assert len("".join(piece.text for piece in pieces)) < 220


def test_texts_are_ranked_by_frequency_and_length() -> None:
    terms = [parse_term("deploy")]
    texts = ["deploy", "deploy " * 3, "deploy " + "and more " * 200, "nothing"]
    scores = [tokenizer.score(tokenize(text), terms) for text in texts]
    assert sorted(range(4), key=lambda i: -scores[i]) == [1, 0, 2, 3]
