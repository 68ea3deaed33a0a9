"""The order of the texts that may answer a question."""

from datetime import UTC, datetime, timedelta

import pytest

from memories.rules.ask.ranking import Candidate, choose
from memories.rules.ingest.timestamps import to_micros

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
MONTHS_AGO = timedelta(days=90)


def text_at(text: str, age: timedelta = timedelta(), *, is_line: bool = False) -> Candidate:
    return Candidate(text, to_micros(NOW - age), is_line)


@pytest.mark.parametrize(
    ("question", "best", "second"),
    [
        (
            "Who pays the stand?",
            text_at("the stand will be paid by @ana"),
            text_at("the stand has a blue wall"),
        ),
        (
            "When do we launch?",
            text_at("we launch on 26 November"),
            text_at("a launch has a lunch"),
        ),
        (
            "How many shops launch on 26 November?",
            text_at("the launch on 26 November has 40 shops"),
            text_at("the launch on 26 November has few shops"),
        ),
        (
            "誰が展示の費用を払いますか",
            text_at("展示の費用は川瀬さんです"),
            text_at("展示の費用は高いですね"),
        ),
        ("Undoの訳は？", text_at("Undoは「元に戻す」です"), text_at("Undo is a blue button")),
        ("What costs the stand?", text_at("stand: 900"), text_at("stand: 800", MONTHS_AGO)),
        (
            "Which wall has the stand?",
            text_at("The stand has a blue wall. Any idea?"),
            text_at("The stand has a wall, any idea?"),
        ),
        ("Which wall has the stand?", text_at("blue wall", is_line=True), text_at("green wall")),
        ("Launching?", text_at("we launched it"), text_at("we had lunch")),
    ],
)
def test_the_better_text_is_first(question: str, best: Candidate, second: Candidate) -> None:
    assert choose(question, [second, best], to_micros(NOW))[0] == 1
    assert choose(question, [best, second], to_micros(NOW))[0] == 0


def test_an_old_text_stays_ahead_of_one_with_fewer_words_of_the_question() -> None:
    old = text_at("the stand has a blue wall", timedelta(days=900))
    new = text_at("the stand is open on Friday")
    assert choose("Which wall has the stand?", [new, old], to_micros(NOW)) == [1, 0]


def test_texts_without_a_word_of_the_question_and_duplicates_are_omitted() -> None:
    texts = [text_at("a blue wall"), text_at("a blue wall"), text_at("lunch")]
    assert choose("Which wall?", texts, to_micros(NOW)) == [0]
