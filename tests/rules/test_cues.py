import pytest

from memories.rules import cues


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("We decided to use PostgreSQL", "We talked about PostgreSQL"),
        ("The report is due next Friday", "The report is rather long"),
        ("Please review the draft", "Nice draft over there"),
        ("The export crashed again", "The export ran again"),
        ("Who owns the calendar?", "Somebody has the calendar"),
        ("新しい色は青に決定しました", "新しい色は青がきれいです"),
        ("提出は11月5日です", "提出は簡単です"),
        ("資料の更新をお願いします", "資料の更新を見ました"),
        ("夜間に障害がありました", "夜間に散歩しました"),
        ("会場はどこですか", "会場は駅前でした"),
        ("see you at the station", "thanks a lot"),
        ("駅前で待っています", "ありがとうございます"),
    ],
)
def test_cues(more: str, less: str) -> None:
    assert cues.weight(more) > cues.weight(less)


@pytest.mark.parametrize("question", ["Who can help?", "どなたか分かりますか？"])
def test_an_open_question_weighs_more(question: str) -> None:
    assert cues.weight(question, is_answered=False) > cues.weight(question)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Is it done?", True),
        ("done? great", True),
        ("It is done.", False),
        ("https://example.org/?page=2", False),
        ("終わりましたか", True),
        ("いいでしょうか？返事待ちです", True),
        ("終わりました。", False),
    ],
)
def test_asks(text: str, asks: bool) -> None:
    assert cues.asks(text) is asks
