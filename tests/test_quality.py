"""The measurements of `make quality` (tests/demo/test_highlights.py checks the demo's
questions).
"""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from bench.quality import (
    ASKED,
    NEWEST,
    OURS,
    SEARCH,
    ask_gatemem,
    current_lines,
    demo_questions,
    table,
)
from bench.quality_model import Recorder
from tests.llm.endpoint import FakeEndpoint


def test_questions_cover_both_languages_and_changed_facts() -> None:
    questions = demo_questions()
    assert sum(bool(question.old) for question in questions) >= 8
    assert [sum(q.group == language for q in questions) for language in ("en", "ja")] == [20, 20]
    assert all(question.strings for question in questions)


def test_history_and_replaced_lines_are_not_current() -> None:
    text = (
        "# Long-term memory\n\n## #launch\n### Now\n- (2026-11-02) a\n### History\n- (2026-11-01) b\n\n"
        "# Short-term memory\n\n## #launch\n### Version 1\n- c (replaced)\n- d\n\n# Conversation\n[09:00] e"
    )
    assert [line for line in current_lines(text) if line] == ["- (2026-11-02) a", "- d"]


STORY = (
    (0, "The launch of Kazoe is on 18 November, Ben decided."),
    (1, "Cara orders 12 scanners for the shop by Friday."),
    (2, "The budget of the stand is 900 euros."),
    (300, "Dan cannot open the door of the lab today, the lock is broken."),
    (301, "Eva pays 45 dollars for a new lock tomorrow."),
    (302, "The lab is closed until the lock is repaired on 20 November."),
    (600, "The launch of Kazoe moves to 26 November."),
    (601, "Cara cancelled the order of the scanners, they cost 300 euros."),
    (602, "Ben will write the release notes by 24 November."),
    (900, "ok"),
)


def model_answer(prompt: str) -> str:
    """One segment has a line without a source, one is answered NOTHING, one copies one of two
    messages; of two operations one names no line."""
    messages = prompt.partition("<<messages")[2]
    if "<<existing" in prompt:
        return "+ The launch of Kazoe is now on 26 November.\n~ L99 No such line was ever there."
    if "<<added" in prompt:
        return "- The launch of Kazoe is set for 18 November."
    if "Cara orders" in messages:
        return (
            "- Ben set the launch of Kazoe for 18 November.\n"
            "- Zebras graze beside quiet rivers.\n- The stand may cost 900 euros."
        )
    if "lock is broken" in messages:
        return "NOTHING"
    return (
        "- Ann: The launch of Kazoe moves to 26 November.\n"
        "- Ben is to write the release notes until 24 November."
    )


@pytest.fixture
def data(tmp_path: Path) -> str:
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    turns: list[dict[str, Any]] = [
        {
            "turn_id": f"t{n}",
            "timestamp": f"{start + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%S}",
            "speaker": {"principal_id": "ann"},
            "text": text,
        }
        for n, (minute, text) in enumerate(STORY)
    ]
    people = {"principals": [{"principal_id": "ann", "display_name": "Ann"}]}
    episode = {"episode_id": "e", "domain": "shop", "entities": people, "turns": turns}
    checkpoint = {
        "episode_id": "e",
        "as_of_turn_id": turns[-1]["turn_id"],
        "query_type": "utility",
        "query_text": "When does Kazoe launch?",
        "judge_spec": {"include": ["26 november"]},
    }
    (tmp_path / "shop.episodes.jsonl").write_text(json.dumps(episode))
    (tmp_path / "shop.checkpoints.jsonl").write_text(json.dumps(checkpoint))
    return str(tmp_path / "shop")


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.django_db
def test_scores_of_a_models_replies(httpserver: HTTPServer, data: str) -> None:
    endpoint = FakeEndpoint(httpserver)
    endpoint.reply_by(model_answer)
    recorder = Recorder(endpoint.summariser())
    scores = ask_gatemem(data, [1_000], recorder)
    for who in (OURS, ASKED, NEWEST, SEARCH):
        assert scores["shop", 1_000, who].hit_rate == 1.0
        assert re.search(rf"shop +1000  {who} +1 +1.000 +1.000", table(scores))
    figures = recorder.figures()
    assert (figures.lines, figures.verified) == (14, 10 / 14)
    assert figures.quotes == 1 / 7
    assert (figures.segments, figures.nothing) == (4, 0.25)  # one of them is provisional
    assert (figures.operations, figures.dropped) == (4, 0.5)
    assert figures.calls == len(endpoint.requests) == 17
    assert (figures.prompt_tokens, figures.completion_tokens) == (1_700, 170)
    assert figures.seconds > 0
    for row in (
        r"lines with a verified source +71\.4% of 14",
        r"quotes +14\.3% of the lines of messages",
        r"segments answered NOTHING +25\.0% of 4",
        r"operations dropped +50\.0% of 4",
        r"tokens +1700 in, 170 out",
        r"seconds +\d+\.\d for 17 calls",
    ):
        assert re.search(f"^{row}$", str(figures), re.MULTILINE), row
