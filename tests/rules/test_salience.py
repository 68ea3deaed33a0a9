import pytest

from memories.rules import salience
from memories.rules.salience import ChosenTexts, content_words


@pytest.mark.parametrize(
    "text",
    [
        "We decided to use PostgreSQL",
        "*Decided:* the launch is off",
        "ACTION received: Ana to write to Ben",
        "[agreed] no release before summer",
        "Decision from that thread: the headline stays",
        "The report is due next Friday",
        "I'll send the draft",
        "The export crashed again",
        "400 phones at once, p95 380 ms, done",
        "A shop pays ¥3,480 for all devices",
        "Sofia comes on Monday from 9:30 AM",
        "新しい色は青に決定しました",
        "【決定】名詞は「棚卸」に統一",
        "提出は11月5日です",
        "夜間に障害がありました",
        "電話は18時までです",
        "田中さんが連絡します",
    ],
)
def test_salient_texts(text: str) -> None:
    assert salience.is_salient(text)


@pytest.mark.parametrize(
    "text",
    [
        "good morning everybody",
        "thanks a lot, see you Friday",
        "haha",
        "+1",
        "ok",
        "the office cat looks like a manager",
        "ran 10k along the river, saw a heron",
        "RESOLVED sync-1: queue depth 88",
        "Commands Available: [TOPIC], [IDEA], [ACTION]",
        "https://bugs.example/release/+bug/445995?tag=gnome3-fix",
        "see https://example.org/app/releases/tag/v1.2",
        "おはようございます",
        "了解です！",
        "今ひとつ食べました",
        "ありがとうございます、助かります",
    ],
)
def test_texts_that_are_not_salient(text: str) -> None:
    assert not salience.is_salient(text)


@pytest.mark.parametrize(
    ("text", "is_lasting"),
    [
        ("We decided to use PostgreSQL", True),
        ("The export crashed again in version 3", True),
        ("The export crashed again, see https://bugs.example/421", True),
        ("AGREED: yes", True),
        (
            "They counted every shelf with a printed list, and can close the books on 13 November",
            True,
        ),
        ("Mr. Ito says that the contract ends on 4 May", True),
        ("The export crashed again", False),
        ("confirmed, the door is closed", False),
        ("She wants everything at 5 in the morning", False),
        ("+, but only for 2 people", False),
        ("18:10, she said, just after closing", False),
        ("賛成。4%は必ず初日に来る", False),
        ("stopped 14:03", False),
        ("ran 10k along the river, saw a heron", False),
    ],
)
def test_lasting_texts(text: str, is_lasting: bool) -> None:
    assert salience.is_lasting(text) is is_lasting


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("We decided to use PostgreSQL", "We talked about PostgreSQL"),
        ("The report is due next Friday", "The report is rather long"),
        ("The export crashed again", "The export ran again"),
        ("The calendar moved", "Who moved the calendar?"),
        ("新しい色は青に決定しました", "新しい色は青がきれいです"),
        ("see you at the station", "thanks a lot"),
        ("駅前で待っています", "ありがとうございます"),
    ],
)
def test_the_kind_of_a_text_changes_its_score(more: str, less: str) -> None:
    assert salience.score(more) > salience.score(less)


@pytest.mark.parametrize(
    ("text", "is_question"),
    [
        ("Is it done?", True),
        ("done? great", True),
        ("They need to know if they must count again", True),
        ("Numbers please: what happens at 2,980 and 3,480.", True),
        ("New on the wiki: how to sign in.", False),
        ("It is done.", False),
        ("https://example.org/?page=2", False),
        ("終わりましたか", True),
        ("いいでしょうか？返事待ちです", True),
        ("終わりました。", False),
    ],
)
def test_questions(text: str, is_question: bool) -> None:
    assert salience.has_question(text) is is_question


def test_content_words_are_search_tokens_without_stop_words() -> None:
    assert content_words("The API was moved to v2") == {"api", "moved", "v2"}
    assert content_words("移行は金曜までです") == {"移行", "行は", "は金", "金曜", "曜ま"}


def test_a_figure_and_a_rare_word_are_worth_more() -> None:
    texts = [
        content_words(text) for text in ("server server room", "server 42", "server disk", "server")
    ]
    worth = salience.word_worth(texts)
    assert worth["42"] > worth["disk"] > salience.word_rarity(texts)["server"]


@pytest.mark.parametrize(
    ("text", "at", "is_duplicate"),
    [
        ("the launch is on 26 November", 2, True),
        ("the launch of Kazoe is on 18 November", 0, True),  # older
        ("the launch of Kazoe is on 30 November", 2, False),  # newer, with another figure
        ("the lunch is in the kitchen", 2, False),
        ("", 2, False),
    ],
)
def test_duplicates_of_chosen_texts(text: str, at: int, is_duplicate: bool) -> None:
    chosen = ChosenTexts()
    chosen.add(content_words("the launch of Kazoe is on 26 November"), 1)
    assert chosen.has_duplicate_of(content_words(text), at) is is_duplicate


def test_bm25_prefers_texts_with_the_questions_rare_words() -> None:
    texts = [content_words(t) for t in ("the vault key is 4711", "lunch is at noon", "a key")]
    rarity = salience.word_rarity(texts)
    vault, lunch, key = salience.bm25_scores(
        content_words("Which key opens the vault?"), texts, rarity
    )
    assert vault > key > lunch == 0
