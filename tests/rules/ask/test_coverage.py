"""Whether texts can answer a question at all."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.ask.answer import NumberedText
from memories.rules.ask.coverage import can_answer

AT = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("When do we launch?", "We launch on Monday", True),
        ("When was it launched?", "launching on Monday", True),  # another form of the word
        ("Where are the raw uploads kept?", "raw uploads are kept in Tokyo", True),
        ("Where are the raw uploads stored?", "raw uploads are kept in Tokyo", True),
        ("What is the password of the server?", "The server is fast", False),
        ("What does a device cost us with the new log?", "a new log for each device", True),
        ("What does a device cost us each month?", "a new log for each device", False),
        # A name.
        ("Who calls Morino about the free month?", "Ana calls Onda about the free month", False),
        ("Who calls Onda’s owner about the month?", "Ana calls Onda about the free month", True),
        ("Who calls onda about the month?", "Ana calls Onda about the free month", True),
        # A number of things.
        ("How many phones did the test have?", "load test with 400 phones", True),
        ("How many phones did the test have?", "load test with two old phones", True),
        ("How many cases of the test passed?", "97 of 97 cases of the test passed", True),
        ("How many old phones did the test have?", "test with 400 phones, also old", True),
        ("How many phones did the test have?", "the test of the phones took 20 minutes", False),
        ("How many phones did the test have?", "the test cost ¥400 per phone", False),
        ("How many contracts have an address?", "two addresses under one contract", False),
        # Japanese.
        ("用語は何に統一しますか", "用語は「棚卸」に統一です", True),
        ("用語集の更新は誰がいつまでにしますか", "用語集は玉井が11月6日までに更新", True),
        ("覚書の署名はいつですか", "覚書の直しは2か所だけ", False),
        ("契約の違約金はいくらですか", "契約の話は難しい", False),
        ("実演は何分ですか", "舞台で実演5分です", True),
        ("実演は何分ですか", "実演の時間が足りない", False),
        ("タブレットは何台ありますか", "タブレットの色は3色", False),
        ("当番は何人ですか", "当番は二人です", True),
        ("会議は何時からですか", "会議は15:00から", True),
        # Without a content word.
        ("What is it about?", "a talk", True),
    ],
)
def test_a_text_needs_most_words_of_the_question(question: str, text: str, expected: bool) -> None:
    assert can_answer(question, [NumberedText(1, text, AT)]) is expected


@pytest.mark.parametrize(
    ("channel", "minutes", "expected"),
    [(1, 0, True), (1, 60, True), (1, 61, False), (2, 0, False), (None, 0, False)],
)
def test_a_text_answers_with_its_neighbours(
    channel: int | None, minutes: int, expected: bool
) -> None:
    asks = NumberedText(1, "who writes the upgrade note?", AT, channel=1)
    at = AT + timedelta(minutes=minutes)
    answers = NumberedText(2, "I'll do it in English", at, "yuki", channel)
    question = "Who writes the English upgrade note?"
    assert can_answer(question, [asks, answers]) is expected
    assert can_answer(question, [answers, asks]) is expected


def test_the_author_of_a_text_is_one_of_its_words() -> None:
    text = NumberedText(1, "I'll write the note", AT, "yuki")
    assert can_answer("Does Yuki write a note?", [text])
    assert not can_answer("Does Nao write a note?", [text])
    assert not can_answer("Does Nao write a note?", [])
