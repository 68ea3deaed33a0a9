import pytest

from memories.rules import lexrank


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("一つ目。二つ目！三つ目？", ["一つ目。", "二つ目！", "三つ目？"]),
        ("「はい。」と言った。次です。", ["「はい。」と言った。", "次です。"]),
        ("see example.org/v1.2 now", ["see example.org/v1.2 now"]),
        ("a\n\nb\n", ["a", "b"]),
        ("", []),
    ],
    ids=["english", "japanese", "quoted", "address", "lines", "empty"],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert lexrank.sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Build is broken", ["build", "broken"]),
        ("ＡＰＩの設計", ["api", "の設", "設計"]),
        ("PR12を確認して", ["pr12", "を確", "確認", "認し"]),
        ("don't stop", ["don't", "stop"]),
        ("v1.2 up_to date", ["v1.2", "up_to", "date"]),
        ("👍 ... !!", []),
    ],
    ids=["english", "full width", "mixed", "apostrophe", "version", "none"],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert lexrank.terms(text) == expected


def ranked(*texts: str) -> list[float]:
    return lexrank.centrality(lexrank.likeness([lexrank.terms(text) for text in texts]))


def test_likeness_is_a_cosine() -> None:
    same, again, other = ["deploy", "fails"], ["fails", "deploy"], ["lunch", "soup"]
    rows = lexrank.likeness([same, again, other])
    assert rows[0] == pytest.approx({1: 1.0})
    assert rows[1] == pytest.approx({0: 1.0})
    assert rows[2] == {}


@pytest.mark.parametrize(
    ("central", "aside"),
    [
        (
            ["deploy failed on staging", "staging deploy fixed", "why did staging fail"],
            "soup today",
        ),
        (["本番の障害を調査中", "障害の原因は設定", "本番の設定を修正"], "眠い"),
    ],
    ids=["en", "ja"],
)
def test_what_the_others_talk_about_is_central(central: list[str], aside: str) -> None:
    *weights, last = ranked(*central, aside)
    assert min(weights) > last
    assert sum([*weights, last]) == pytest.approx(4)


@pytest.mark.parametrize("texts", [[], ["alone"], ["", ""], ["a b"] * 80])
def test_few_and_equal_texts(texts: list[str]) -> None:
    assert ranked(*texts) == pytest.approx([1.0] * len(texts))
