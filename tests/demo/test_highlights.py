"""The demo after its merges: the kept lines, and the questions that its contexts answer."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ask import HIDDEN
from bench.quality import ASKED, BEST_THREE, NOW, OURS, Scores, ask_demo, remember
from memories.demo.workspace import build_export
from memories.models import Line, Memory, Message, Reader, Workspace
from memories.pipeline.ask.asking import ask
from memories.rules import salience

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
# Lines of the demo that no reaction marks, by kind. No long-term memory has one of them.
UNMARKED = {
    "joke": (
        "one of those bugs you hug",
        "I eat at the Android 9 tablet",
        "everything should be free and at 5 in the morning",
        "妻には言わないでください",
        "it said fine",
        "she's one of us now",
    ),
    "small talk": ("saw a 1970s hand counter", "ran 10k along the river"),
    "unanswered question": (
        "need to know if they must count again",
        "what happens to revenue at 2,980",
        "A confirmed count by noon?",
    ),
    "answer without its question": ("she said, just after closing", "4%は必ず初日に来る"),
}
# People laughed about it, but it is an event.
LAUGHED_ABOUT_EVENT = "And I called the hardware shop."
SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")


def messages_of(folder: Path, kind: str) -> set[str]:
    """Return the ts of messages by bots, or of messages with a `joy` reaction."""
    rows = (row for path in folder.glob("*/*.json") for row in json.loads(path.read_text("utf-8")))
    if kind == "bots":
        return {row["ts"] for row in rows if "bot_id" in row or row.get("subtype") == "bot_message"}
    return {
        row["ts"]
        for row in rows
        if any(reaction["name"] == "joy" for reaction in row.get("reactions", ()))
    }


def is_question_alone(text: str) -> bool:
    return all(salience.has_question(part) for part in SENTENCE.split(text) if part.strip())


def merged_lines() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind, the text and the ts of the sources of each line of long-term memories."""
    for memory in Memory.objects.filter(memory_type="long_term").exclude(current=None):
        for line in memory.current.line_values():
            sources = Message.objects.filter(pk__in=line.sources).order_by("micros")
            yield line.kind, line.text, list(sources.values_list("ts", flat=True))


@pytest.fixture(scope="module")
def scores(module_transaction: None) -> Scores:
    """The demo lived through, with each question asked at its time."""
    return ask_demo(budgets=[2_000])


def test_a_context_contains_the_answers(scores: Scores, db: None) -> None:
    for language in ("en", "ja"):
        plain, questioned = scores[language, 2_000, OURS], scores[language, 2_000, ASKED]
        assert plain.hit_rate >= 0.9, plain.missed
        assert questioned.hit_rate == 1.0, questioned.missed
        assert not plain.outdated + questioned.outdated
    replaced = Line.objects.filter(
        outcome=Line.Outcome.SUPERSEDED, text__contains="Kazoe 3 launches on"
    )
    assert replaced.filter(version__memory__memory_type="long_term").exists()


def test_merges_keep_no_bot_message_joke_or_lone_question(
    scores: Scores, db: None, tmp_path: Path
) -> None:
    build_export(tmp_path, NOW)
    bots, jokes = messages_of(tmp_path, "bots"), messages_of(tmp_path, "jokes")
    assert len(bots) > 50 and len(jokes) > 20
    lines = list(merged_lines())
    assert len(lines) > 80
    assert all(kind in ("decision", "task", "question", "status", "event") for kind, *_ in lines)
    assert not [text for _, text, sources in lines if bots & set(sources)]
    assert not [text for _, text, sources in lines if len(sources) < 2 and is_question_alone(text)]
    messages = "\n".join(Message.objects.values_list("text", flat=True))
    long_term = "\n".join(text for _, text, _ in lines)
    for kind, texts in UNMARKED.items():
        for text in texts:
            assert text in messages and text not in long_term, kind
    laughed_about = [text for _, text, sources in lines if jokes & set(sources)]
    assert not [text for text in laughed_about if LAUGHED_ABOUT_EVENT not in text]


def test_ask_begins_with_the_answers(scores: Scores, db: None) -> None:
    answers = [scores[language, 2_000, BEST_THREE] for language in ("en", "ja")]
    missed = [question for score in answers for question in score.missed]
    assert sum(score.hits for score in answers) >= 0.95 * sum(x.asked for x in answers), missed


def test_ask_knows_what_the_reader_may_not_read(scores: Scores, db: None) -> None:
    unknown = [scores[language, 2_000, BEST_THREE].unknown for language in ("en", "ja")]
    assert sum(map(len, unknown)) <= 2, unknown
    workspace = Workspace.objects.get()
    remember(workspace, NOW)
    for question, _ in HIDDEN:
        answer = ask(question, workspace, Reader.public(NOW), NOW)
        assert answer.passages and answer.sentences == (), question
