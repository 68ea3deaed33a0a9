"""Lines that are taken from their messages are in no wrong language (rule 8)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memories.demo.workspace import build_export
from memories.llm import OfflineSummariser
from memories.rules.generate.faults import Fault
from memories.rules.generate.language import detect_language
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.summariser import MessageLine, Request
from tests.llm.requests import messages, short


def segments(folder: Path, size: int) -> Iterator[list[MessageLine]]:
    for channel in sorted(path for path in folder.iterdir() if path.is_dir()):
        rows = [
            row for day in sorted(channel.glob("*.json")) for row in json.loads(day.read_text())
        ]
        texts = [row["text"] for row in rows if row.get("text")]
        for first in range(0, len(texts), size):
            yield messages(*texts[first : first + size])


def as_if_a_model_wrote(request: Request) -> str:
    reply = replace(OfflineSummariser().summarise(request), model="a-model")
    return parse_reply(reply, request).fault


@pytest.mark.slow
def test_the_demo_workspace_in_its_own_language(tmp_path: Path) -> None:
    build_export(tmp_path, datetime(2026, 11, 20, tzinfo=UTC))
    requests = [
        short(lines, language="conversation")
        for size in (5, 25, 50)
        for lines in segments(tmp_path, size)
    ]
    spoken = {detect_language([m.text for m in request.messages]) for request in requests}
    assert len(requests) > 50 and spoken - {None}  # there is something to be wrong about
    assert [fault for fault in map(as_if_a_model_wrote, requests) if fault] == []


def test_an_extract_is_not_blamed_for_its_messages() -> None:
    """Without a model a workspace that wants English and talks Japanese still has memories."""
    texts = [
        "来週の金曜日までに公開します。",
        "月末まで古いページを残しておきます。",
        "田中さんが連絡します。",
    ]
    wanted = short(messages(*texts, author="田中"), language="en")
    extract = OfflineSummariser().summarise(wanted)
    assert parse_reply(extract, wanted).fault == ""
    assert parse_reply(replace(extract, model="a-model"), wanted).fault == Fault.WRONG_LANGUAGE
