"""The logs: one JSON object a line, without words of people."""

import json
import logging
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import IntegrityError
from django.test import Client

from memoryhub.logs import JsonFormatter, PlainFormatter

SECRET = "we sell the house on Friday"


def record(
    message: str, *arguments: object, error: bool = False, **extra: object
) -> logging.LogRecord:
    made = logging.LogRecord("memories.tasks", logging.INFO, "", 1, message, arguments, None)
    if error:
        made.exc_info = sys.exc_info()
    for name, value in extra.items():
        setattr(made, name, value)
    return made


def test_a_line_is_a_json_object_with_the_extra_fields() -> None:
    line = JsonFormatter().format(record("pass of workspace %d\ndone", 7, calls=3, model="gpt"))
    assert "\n" not in line
    read = json.loads(line)
    assert read.pop("time").endswith("+00:00")
    assert read == {
        "level": "info",
        "logger": "memories.tasks",
        "event": "pass of workspace 7\ndone",
        "calls": 3,
        "model": "gpt",
    }


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()], ids=["plain", "json"])
def test_a_database_that_quotes_the_row_is_not_repeated(formatter: logging.Formatter) -> None:
    try:
        raise IntegrityError(
            f'violates check constraint "length"\nDETAIL:  Failing row contains ({SECRET}).'
        )
    except IntegrityError:
        line = formatter.format(record("task %d failed", 5, error=True))
    assert "IntegrityError" in line
    assert "violates check constraint" in line
    assert "test_logs.py" in line
    assert SECRET not in line


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()], ids=["plain", "json"])
def test_nor_inside_a_message_of_the_queue(formatter: logging.Formatter) -> None:
    """django-q2 writes the whole traceback of a failed task into its message."""
    line = formatter.format(record(f"Failed 'job' - error\nDETAIL:  Key (text)=({SECRET})\n"))
    assert "Failed 'job'" in line
    assert SECRET not in line


@pytest.mark.django_db
def test_a_missing_page_is_logged_without_its_query(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.get("/nowhere/", {"q": SECRET}).status_code == 404
    [line] = [JsonFormatter().format(r) for r in caplog.records if r.name == "django.request"]
    assert "/nowhere/" in line
    assert SECRET.split()[0] not in line
    assert "q=" not in line


def test_a_long_error_is_cut() -> None:
    try:
        raise ValueError("x" * 5000)
    except ValueError:
        line = JsonFormatter().format(record("failed", error=True))
    assert "x" * 200 in line
    assert "x" * 201 not in line


WORDS = ["zanzibar", "quokka", "marzipan", "ocelot", "ukulele", "平塚の倉庫"]
MONDAY = 1767603600  # 2026-01-05 09:00 UTC


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of one channel in which every message has a word of its own."""
    folder = tmp_path / "export"
    (folder / "general").mkdir(parents=True)
    people = [{"id": "U1", "name": "ann", "profile": {"real_name": "Ann"}}]
    channels = [{"id": "C1", "name": "general", "created": MONDAY, "members": ["U1"]}]
    messages = [
        {
            "type": "message",
            "user": "U1",
            "ts": f"{MONDAY + 60 * number}.000100",
            "text": f"We decided to ship {word} by Friday, whatever it costs us.",
        }
        for number, word in enumerate(WORDS)
    ]
    (folder / "users.json").write_text(json.dumps(people))
    (folder / "channels.json").write_text(json.dumps(channels))
    (folder / "general" / "2026-01-05.json").write_text(json.dumps(messages))
    return folder


@pytest.mark.slow
@pytest.mark.django_db
def test_logs_contain_no_words_of_people(export: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        call_command("import_slack", str(export), "--backfill", "all", stdout=StringIO())
        call_command("run_pass", "--now", "2026-01-06T09:00:00Z", stdout=StringIO())
        call_command("memory", "add", "The pangolin is ours", stdout=StringIO())
        output = StringIO()
        call_command("context", "--channel", "general", stdout=output)
    assert any(word in output.getvalue() for word in WORDS)  # else nothing was there to log
    assert caplog.records
    lines = [JsonFormatter().format(line) for line in caplog.records]
    secret = [*WORDS, "ship", "pangolin", "Ann"]
    assert [line for line in lines if any(word in line for word in secret)] == []


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()], ids=["plain", "json"])
def test_an_address_with_a_token_is_not_repeated(formatter: logging.Formatter) -> None:
    for path in ("/feeds/a-Secret_1.atom", "/unsubscribe/7:a-Secret_1/"):
        assert "Secret" not in formatter.format(record("Not Found: %s", path))
