"""The export of the demo has enough of everything, at any `now`."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memories.demo.ids import channel_id, person_id
from memories.demo.script import TOKYO
from memories.demo.workspace import DEMO_PERSON, build_export, scripts

Row = dict[str, Any]

GREETINGS: frozenset[str] = frozenset({"has joined the channel", "no", "yes", "ah"})
IDLE = 7200
SILENCE = 9000

NOWS = [
    pytest.param(datetime(2026, 11, 18, 12, 0, tzinfo=TOKYO), id="wednesday-noon"),
    pytest.param(datetime(2026, 11, 19, 0, 5, tzinfo=TOKYO), id="five-past-midnight"),
    pytest.param(datetime(2026, 11, 19, 23, 59, 59, tzinfo=TOKYO), id="last-second"),
    pytest.param(datetime(2026, 11, 16, 9, 30, tzinfo=TOKYO), id="monday"),
    pytest.param(datetime(2026, 11, 15, 0, 5, tzinfo=TOKYO), id="sunday-night"),
    pytest.param(datetime(2026, 11, 14, 18, 0, tzinfo=TOKYO), id="saturday"),
    pytest.param(datetime(2027, 1, 1, 3, 0, tzinfo=UTC), id="new-year"),
    pytest.param(datetime(2028, 3, 1, 16, 0, 30, 123456, tzinfo=UTC), id="after-a-leap-day"),
]


class Export:
    """The contents of an export folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users: list[Row] = self._read("users.json")
        self.public: list[Row] = self._read("channels.json")
        self.private: list[Row] = self._read("groups.json")
        self.channels = self.public + self.private
        self.rows: dict[str, list[Row]] = {
            channel["name"]: [
                row
                for day in sorted((folder / channel["name"]).glob("*.json"))
                for row in json.loads(day.read_text("utf-8"))
            ]
            for channel in self.channels
        }

    def _read(self, name: str) -> list[Row]:
        value: list[Row] = json.loads((self.folder / name).read_text("utf-8"))
        return value

    @property
    def all(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]


def exported(folder: Path, now: datetime) -> Export:
    build_export(folder, now)
    return Export(folder)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return exported(tmp_path_factory.mktemp("demo"), datetime(2026, 11, 18, 12, 0, tzinfo=TOKYO))


def is_by_bot(row: Row) -> bool:
    return "bot_id" in row or row.get("subtype") == "bot_message"


def seconds(row: Row) -> int:
    return int(row["ts"].partition(".")[0])


def count_segments(rows: list[Row], idle: int = IDLE) -> int:
    times = sorted(seconds(row) for row in rows if row.get("subtype") != "message_deleted")
    return 1 + sum(
        later - earlier >= idle for earlier, later in zip(times, times[1:], strict=False)
    )


def test_people_and_bots(export: Export) -> None:
    assert sum(not user["is_bot"] for user in export.users) == 12
    assert sum(user["is_bot"] for user in export.users) == 3
    speakers = {row.get("user") for row in export.all}
    assert {user["id"] for user in export.users if not user["is_bot"]} <= speakers


def test_channels(export: Export) -> None:
    assert len(export.channels) >= 9
    assert len(export.private) == 2
    assert all(channel["members"] for channel in export.channels)
    ids = [user["id"] for user in export.users]
    assert all(set(channel["members"]) <= set(ids) for channel in export.channels)
    assert len({channel["id"] for channel in export.channels}) == len(export.channels)


def test_speakers_are_members(export: Export) -> None:
    for channel in export.channels:
        people = {row["user"] for row in export.rows[channel["name"]] if "client_msg_id" in row}
        assert people <= set(channel["members"]), channel["name"]


def test_the_demo_login_reads_one_of_the_private_channels(export: Export) -> None:
    member_of = [c["name"] for c in export.private if person_id(DEMO_PERSON) in c["members"]]
    assert len(member_of) == 1


def test_messages(export: Export) -> None:
    assert len(export.all) >= 540
    assert sum("client_msg_id" in row for row in export.all) >= 430
    assert sum(is_by_bot(row) for row in export.all) >= 80


def test_channels_are_japanese_noisy_and_quiet(export: Export) -> None:
    japanese = [
        row
        for row in export.rows["みなと連携"]
        if re.search("[ぁ-んァ-ン一-龠]", row.get("text", ""))
    ]
    assert len(japanese) > 0.8 * len(export.rows["みなと連携"])
    noise = export.rows["ops"]
    assert sum(is_by_bot(row) for row in noise) > 0.8 * len(noise)
    assert len(export.rows["design"]) == min(map(len, export.rows.values()))
    assert len(export.rows["design"]) < 30


def test_threads(export: Export) -> None:
    roots = [row for row in export.all if "reply_count" in row]
    assert len(roots) >= 30
    assert sum(row["reply_count"] >= 5 for row in roots) >= 6
    for name, rows in export.rows.items():
        by_ts = {row["ts"]: row for row in rows}
        replies = [row for row in rows if row.get("thread_ts", row["ts"]) != row["ts"]]
        assert all(row["thread_ts"] in by_ts for row in replies), name
        counted = Counter(row["thread_ts"] for row in replies)
        for ts, count in counted.items():
            root = by_ts[ts]
            in_thread = [row for row in replies if row["thread_ts"] == ts]
            if root.get("subtype") != "tombstone":
                assert root["latest_reply"] == max(row["ts"] for row in in_thread)
            assert root["reply_count"] == count == len(root["replies"])
            assert all(row["ts"] > ts for row in in_thread)


@pytest.mark.parametrize(
    ("subtype", "minimum"),
    [
        ("tombstone", 1),
        ("message_deleted", 2),
        ("thread_broadcast", 1),
        ("me_message", 1),
        ("channel_join", 2),
        ("channel_topic", 1),
        ("bot_message", 20),
    ],
)
def test_subtypes(export: Export, subtype: str, minimum: int) -> None:
    assert sum(row.get("subtype") == subtype for row in export.all) >= minimum


@pytest.mark.parametrize(
    ("name", "has_feature", "minimum"),
    [
        ("edits", lambda row: "edited" in row, 8),
        ("reactions", lambda row: "reactions" in row, 60),
        ("files", lambda row: "files" in row, 10),
        ("blocks", lambda row: "blocks" in row, 100),
        ("attachments", lambda row: "attachments" in row and is_by_bot(row), 8),
        ("mentions", lambda row: "<@U" in row.get("text", "") and "subtype" not in row, 20),
        ("channel-links", lambda row: "<#C" in row.get("text", ""), 10),
        ("labelled-urls", lambda row: re.search(r"<https://[^|>]+\|", row.get("text", "")), 8),
        ("emoji", lambda row: re.search(r":[a-z_]+:", row.get("text", "")), 8),
        ("code-blocks", lambda row: "```" in row.get("text", ""), 4),
        ("inline-code", lambda row: re.search("(?<!`)`[^`]+`(?!`)", row.get("text", "")), 15),
        ("skin-tones", lambda row: "::skin-tone-" in json.dumps(row.get("reactions", [])), 1),
        ("only-a-username", lambda row: is_by_bot(row) and not ({"bot_id", "user"} & set(row)), 2),
        ("escapes", lambda row: "&gt;" in row.get("text", ""), 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_there_is_enough_of_each_feature(
    export: Export, name: str, has_feature: Any, minimum: int
) -> None:
    assert sum(bool(has_feature(row)) for row in export.all) >= minimum, name


def test_there_are_decisions_and_questions(export: Export) -> None:
    texts = [row.get("text", "") for row in export.all]
    assert (
        sum(bool(re.search("decided|decision|【決定】", text, re.IGNORECASE)) for text in texts)
        >= 25
    )
    assert sum(text.rstrip().endswith(("?", "？")) for text in texts) >= 70


def test_only_greetings_are_repeated() -> None:
    assert all(len(greeting) <= 24 for greeting in GREETINGS)
    texts = Counter(message.text.strip() for script in scripts() for message in script.messages)
    assert {text for text, count in texts.items() if count > 1} <= GREETINGS


def test_mentions_are_of_known_people_and_channels(export: Export) -> None:
    ids = {user["id"] for user in export.users}
    channels = {channel["id"]: channel["name"] for channel in export.channels}
    for row in export.all:
        text = row.get("text", "")
        assert set(re.findall(r"<@([^>]+)>", text)) <= ids
        for key, name in re.findall(r"<#([^|>]+)\|([^>]+)>", text):
            assert channels[key] == name
        assert not re.search(r"\{[dwji][+-]", text)
        for reaction in row.get("reactions", []):
            assert set(reaction["users"]) <= ids
            assert reaction["count"] == len(set(reaction["users"]))


def test_ts_is_unique_with_six_decimals(export: Export) -> None:
    for rows in export.rows.values():
        stamps = [row["ts"] for row in rows]
        assert len(set(stamps)) == len(stamps)
        assert all(re.fullmatch(r"\d{10}\.\d{6}", ts) for ts in stamps)


@pytest.mark.slow
@pytest.mark.parametrize("now", NOWS)
def test_messages_are_in_the_past_and_some_segments_are_open(tmp_path: Path, now: datetime) -> None:
    export = exported(tmp_path, now)
    latest = max(seconds(row) for row in export.all)
    assert now.timestamp() - 3600 < latest < now.timestamp() - 15 * 60
    edits = [int(row["edited"]["ts"].partition(".")[0]) for row in export.all if "edited" in row]
    assert max(edits) < now.timestamp()
    assert min(seconds(row) for row in export.all) > (now - timedelta(days=26)).timestamp()
    open_now = [
        name
        for name, rows in export.rows.items()
        if now.timestamp() - max(map(seconds, rows)) < IDLE
    ]
    assert 3 <= len(open_now) < len(export.rows)


@pytest.mark.slow
@pytest.mark.parametrize("now", NOWS)
def test_busy_channels_have_many_segments(tmp_path: Path, now: datetime) -> None:
    export = exported(tmp_path, now)
    for name in ("launch", "dev", "support"):
        assert count_segments(export.rows[name]) >= 6
        assert count_segments(export.rows[name], SILENCE) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("now", NOWS)
def test_day_files_contain_their_own_day_in_order(tmp_path: Path, now: datetime) -> None:
    build_export(tmp_path, now)
    for path in tmp_path.glob("*/*.json"):
        rows = json.loads(path.read_text("utf-8"))
        assert {datetime.fromtimestamp(seconds(r), TOKYO).date().isoformat() for r in rows} == {
            path.stem
        }
        stamps = [row["ts"] for row in rows]
        assert stamps == sorted(stamps)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.json")}


def test_the_same_now_gives_the_same_bytes(tmp_path: Path) -> None:
    now = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
    build_export(tmp_path / "a", now)
    build_export(tmp_path / "b", now.astimezone(TOKYO))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.slow
def test_a_week_later_every_ts_is_a_week_later(tmp_path: Path) -> None:
    now = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
    first, second = exported(tmp_path / "a", now), exported(tmp_path / "b", now + timedelta(days=7))
    for name, rows in first.rows.items():
        moved = [f"{seconds(row) + 7 * 86400}.{row['ts'].partition('.')[2]}" for row in rows]
        assert moved == [row["ts"] for row in second.rows[name]]


def test_a_day_later_the_order_is_the_same(tmp_path: Path) -> None:
    now = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
    first, second = exported(tmp_path / "a", now), exported(tmp_path / "b", now + timedelta(days=1))
    for name in ("launch", "dev", "support", "pricing"):
        first_order, second_order = (
            [row["ts"].partition(".")[2] for row in export.rows[name]] for export in (first, second)
        )
        assert first_order == second_order


def test_blocks_have_the_words_of_the_text(export: Export) -> None:
    def text_of(elements: list[Row]) -> str:
        return "".join(
            text_of(e["elements"]) if "elements" in e else e.get("text", "") for e in elements
        )

    count = 0
    for row in export.all:
        if "blocks" in row:
            count += 1
            words = set(re.findall(r"[A-Za-z]{4,}", text_of(row["blocks"])))
            bare = re.sub(r"<[^|>]*\|?|[*`]", " ", row["text"])
            bare = bare.replace("&lt;", " ").replace("&gt;", " ").replace("&amp;", " ")
            assert words <= set(re.findall(r"[A-Za-z]{4,}", bare))
    assert count


def test_ids_are_stable() -> None:
    """Bookmarks stay valid after the demo is created again."""
    assert (person_id("grace"), channel_id("launch")) == ("U0HD1XW4HCK", "C0E2QHPYC7K")
