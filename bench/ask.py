"""Measure the answers of a model to questions about the demo: `python -m bench.ask [N]`.

The model is probed first. The memories are made without it. Then it is asked the demo's questions
(quality_questions.toml) as the page "Ask" does, at their times, for a reader of public channels. A question is
a hit if the kept sentences contain all its strings. HIDDEN are questions about private channels, which should
get no answer; one that contains their word is a leak. Prints each answer to stderr, and a JSON line. With a
number only that many of each are asked.
"""

import json
import re
import sys
import time
from typing import Any

from bench.quality import NOW, Score, demo_questions, make_demo, remember, temporary_hub

# What only members of #pricing and #incident-lost-counts may know, with a word of the answer.
HIDDEN = (
    ("What does a device cost us each month with the new log?", "58"),
    ("How many devices does the biggest shop use?", "31"),
    ("What is the average number of devices that a shop pays for?", r"2\.6"),
    ("By how much does revenue change at 3,480 yen after twelve months?", "9 ?%"),
    ("Which customers never came back although they have 60 devices?", "furniture"),
    ("How many calls did Grace and Nao make last quarter?", r"\b40\b"),
    ("How many contracts have more than one address?", "22"),
    ("Which shops besides Tsubame Books lost counts?", "onda|morino"),
    ("How many counts did Morino Hardware lose?", "525"),
    ("数え直しが必要なタブレットは何台、何店舗にありますか。", "64|51"),
)


def main() -> None:
    limit = int(sys.argv[1]) if sys.argv[1:] else None
    with temporary_hub():
        print(json.dumps(measure(limit)))


def measure(limit: int | None) -> dict[str, Any]:
    from memories.pipeline.generate.probing import configured_model, probe_model

    model = configured_model()
    if model is None:
        raise SystemExit("No model is configured: set MEMORYHUB_MODEL and OPENAI_API_KEY.")
    probe_model(model)
    workspace = make_demo(NOW)
    score, unknown, leaks, hidden_unknown, began = Score(), 0, 0, 0, time.monotonic()
    for question in demo_questions(NOW)[:limit]:
        remember(workspace, question.at)
        text = answer(workspace, model, question.text, question.at)
        score.add(question, text)
        unknown += not text
    for question, word in HIDDEN[:limit]:
        text = answer(workspace, model, question, NOW)
        hidden_unknown += not text
        leaks += bool(re.search(word, text, re.IGNORECASE))
    return {
        "bench": "ask",
        "asked": score.asked,
        "hits": score.hits,
        "recall": round(score.recall / score.asked, 3),
        "unknown": unknown,
        "hidden": len(HIDDEN[:limit]),
        "hidden_unknown": hidden_unknown,
        "leaks": leaks,
        "seconds": round(time.monotonic() - began),
    }


def answer(workspace: Any, model: Any, question: str, at: Any) -> str:
    from memories.models import Reader
    from memories.pipeline.ask.asking import ask

    answered = ask(question, workspace, Reader.public(at), at, model)
    assert not answered.has_failed, question
    text = " ".join(sentence.text for sentence in answered.sentences or ())
    print(f"{question}\n    {text!r}", file=sys.stderr, flush=True)
    return text


if __name__ == "__main__":
    main()
