"""The format of the demo's scripts: days, dates in texts, and invalid lines."""

import re
from datetime import datetime
from pathlib import Path

import pytest

from memories.demo.markup import Markup
from memories.demo.messages import MessageBuilder
from memories.demo.script import (
    TOKYO,
    ScriptError,
    read_script,
    saturday_before,
    with_dates,
    workday,
)


@pytest.mark.parametrize(
    ("today", "offset", "expected"),
    [
        pytest.param("2026-11-18", -1, "2026-11-17", id="day-before"),
        pytest.param("2026-11-16", -1, "2026-11-13", id="monday-to-friday"),
        pytest.param("2026-11-15", -1, "2026-11-13", id="sunday-to-friday"),
        pytest.param("2026-11-15", 1, "2026-11-16", id="sunday-to-monday"),
        pytest.param("2026-11-20", 2, "2026-11-24", id="friday-and-two"),
        pytest.param("2026-11-18", -15, "2026-10-28", id="three-weeks"),
        pytest.param("2026-11-14", 0, "2026-11-14", id="today-even-on-saturday"),
    ],
)
def test_working_days(today: str, offset: int, expected: str) -> None:
    assert workday(datetime.fromisoformat(today).date(), offset).isoformat() == expected


@pytest.mark.parametrize(
    ("today", "expected"),
    [("2026-11-14", "2026-11-07"), ("2026-11-15", "2026-11-14"), ("2026-11-20", "2026-11-14")],
)
def test_the_last_saturday_is_before_today(today: str, expected: str) -> None:
    assert saturday_before(datetime.fromisoformat(today).date(), 1).isoformat() == expected


def test_dates_in_texts_follow_now() -> None:
    now = datetime(2026, 11, 20, 12, 0, tzinfo=TOKYO)
    text = with_dates("{d+2} {w-1} {j+7} {i-4} {not} {d}", now)
    assert text == "Tue 24 Nov Thursday 12月1日(火) 2026-11-16 {not} {d}"


HEADER = "channel: x\nkind: public\ntopic: t\npurpose: p\ncreator: tom\nmembers: tom\n\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("colour: blue\n", "bad.txt:1: a header line", id="header"),
        pytest.param("channel: x\n\n", "bad.txt:2: the header lacks", id="header-short"),
        pytest.param(HEADER.replace("public", "secret"), "bad.txt:7: kind is", id="kind"),
        pytest.param(HEADER + "09:00 tom: hi\n", "bad.txt:8: a time needs a day", id="no-day"),
        pytest.param(HEADER + "== -1\nhello\n", "bad.txt:9: not understood", id="no-message"),
        pytest.param(HEADER + "== -1\n25:00 tom: hi\n", "bad.txt:9: 25:00 is no time", id="hour"),
        pytest.param(
            HEADER + "== -1\n19:00 tom: hi\n", "bad.txt:9: messages of day -1 end", id="evening"
        ),
        pytest.param(HEADER + "now-10 tom: hi\n", "bad.txt:8: now-10 is outside", id="too-late"),
        pytest.param(HEADER + "now-500 tom: hi\n", "bad.txt:8: now-500 is outside", id="too-early"),
        pytest.param(HEADER + "> now-30 tom: hi\n", "bad.txt:8: a reply before", id="reply-first"),
        pytest.param(
            HEADER + "+ tada tom\n", "bad.txt:8: nothing has been said", id="reaction-first"
        ),
        pytest.param(
            HEADER + "now-30 tom: hi\n+ tada\n", "bad.txt:9: a reaction is", id="reaction"
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(ScriptError, match=re.escape(message)):
        read_script(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("now-30 nobody: hi", "bad.txt:8: nobody is nobody", id="author"),
        pytest.param("now-30 tom: hi @ghost", "bad.txt:8: @ghost is nobody", id="mention"),
        pytest.param(
            "now-30 tom: hi\n+ tada ghost", "bad.txt:8: reaction by unknown", id="reaction"
        ),
        pytest.param("now-30 tom: hi\n* file x.png", "bad.txt:8: a file is", id="file"),
        pytest.param(
            "now-30 build: hi\n* attach good x", "bad.txt:8: an attachment is", id="attach"
        ),
        pytest.param(
            "now-30 tom: hi\n* edited soon", "bad.txt:8: edited needs a delay", id="edited"
        ),
        pytest.param(
            "now-30 tom: hi\n> now-31 tom: before", "bad.txt:9: a reply older", id="reply-before"
        ),
    ],
)
def test_a_line_that_cannot_be_built_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"{HEADER}{line}\n", "utf-8")
    now = datetime(2026, 11, 18, 12, 0, tzinfo=TOKYO)
    builder = MessageBuilder(
        now, {"tom": {"real_name": "T"}}, {"build": {"real_name": "B"}}, Markup({}, {})
    )
    with pytest.raises(ScriptError, match=re.escape(message)):
        builder.build(read_script(path))
