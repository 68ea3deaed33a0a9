"""Four days of an invented team's Slack, in every form in which it may reach us.

`live` lets people talk, reply late, edit, delete, rename and come and go in a `FakeWorkspace`. Of each
evening it keeps the workspace as Slack would answer then and as Slack would export it, and of each
act the event, with its moment. The same seed gives the same life.
"""

import json
import random
from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memories.rules.ingest.timestamps import from_micros, micros, to_micros, ts_from_micros
from tests.slack.fake_channel import FakeChannel, is_reply
from tests.slack.fake_workspace import FakeWorkspace

Json = dict[str, Any]

BEGIN = datetime(2025, 6, 2, tzinfo=UTC)  # in no clock's future
DAYS = 4
ACTS = 11  # a day
EVENING = timedelta(hours=23)

OPEN, TURNED, CLOSED, QUIET = "C0OPEN", "C0TURNED", "C0CLOSED", "C0QUIET"
PEOPLE = {f"U{n}": name for n, name in enumerate(["ann", "ben", "cho", "dan", "eri", "fumi"], 1)}
# Somebody of another organisation, and somebody of whom no list tells.
ELSEWHERE = {
    "user": "W0ELSE",
    "user_team": "T0OTHER",
    "user_profile": {"display_name": "Ella from elsewhere", "real_name": "Ella"},
}
UNKNOWN = {"user": "U0GONE"}
BOT = {"subtype": "bot_message", "bot_id": "B0DEPLOY", "username": "Deploys", "user": ""}
# How those are called of whom only their messages tell.
STRANGERS = {"W0ELSE": "Ella from elsewhere", "U0GONE": "U0GONE", "B0DEPLOY": "Deploys"}
WORDS = [
    "the release",
    "請求書の締め切り",
    "the outage",
    "採用計画",
    "the new office",
    "翻訳の順番",
]


@dataclass
class LifeEvent:
    """An event's body, and its time in days since BEGIN.

    ``of`` is (channel, ts) of its message, or None if it is about a channel or person.
    """

    body: Json
    at: float
    of: tuple[str, str] | None


@dataclass
class Evening:
    """The workspace at the end of a day: what Slack answers then."""

    at: float
    users: dict[str, Json]
    channels: dict[str, FakeChannel]


@dataclass
class Life:
    """``created`` and ``deleted``: when each (channel, ts) came and went, in days. ``threads``: of each
    channel, ts → root of all that ever was in a thread."""

    evenings: list[Evening] = field(default_factory=list)
    events: list[LifeEvent] = field(default_factory=list)
    created: dict[tuple[str, str], float] = field(default_factory=dict)
    deleted: dict[tuple[str, str], float] = field(default_factory=dict)
    threads: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))


def moment(days: float) -> datetime:
    return BEGIN + timedelta(days=days)


def live(seed: int) -> Life:
    return _Living(seed).life


class _Living:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.life = Life()
        self.now_us = to_micros(BEGIN)
        self.slack = FakeWorkspace(lambda: self.now_us / 1_000_000)
        self.count = 0
        self._settle()
        self._keep()
        for day in range(DAYS):
            for act in range(ACTS):
                self.now_us = to_micros(moment(day) + EVENING * (act + 1) / (ACTS + 1))
                self.now_us += self.chance.randrange(60_000_000)
                self._act(day, act)
                self._hear()
            self.now_us = to_micros(moment(day) + EVENING)
            self._keep()

    def _settle(self) -> None:
        for slack_id, name in PEOPLE.items():
            self.slack.add_user(slack_id, name, updated=self.now_us // 1_000_000 - 1000)
        everybody = list(PEOPLE)
        self.slack.add_channel(OPEN, "open", members=list(everybody))
        self.slack.add_channel(TURNED, "turned", members=everybody[:4])
        self.slack.add_channel(CLOSED, "closed", is_private=True, members=everybody[:3])
        self.slack.add_channel(QUIET, "quiet", members=list(everybody))
        self.slack.take_events()

    @property
    def days(self) -> float:
        return (self.now_us - to_micros(BEGIN)) / 86_400_000_000

    def _keep(self) -> None:
        self._hear()
        channels = deepcopy(self.slack.channels)
        self.life.evenings.append(Evening(self.days, deepcopy(self.slack.users), channels))

    def _hear(self) -> None:
        for body in self.slack.take_events():
            event = body["event"]
            of = None
            if event["type"] == "message":
                inner = event.get("message", event)
                of = event["channel"], event.get("deleted_ts") or inner["ts"]
            self.life.events.append(LifeEvent(body, self.days, of))

    def _act(self, day: int, act: int) -> None:
        """Each day has its one act upon channels and people; else they talk."""
        if act == 5:
            self._rearrange(day)
            return
        roll = self.chance.random()
        channel = self.slack.channels[
            self.chance.choices([OPEN, TURNED, CLOSED, QUIET], [5, 3, 3, 1])[0]
        ]
        stamps = [ts for ts, m in channel.messages.items() if m.get("subtype") != "tombstone"]
        people_said = [ts for ts in stamps if channel.messages[ts].get("user")]
        if roll < 0.14 and people_said:
            self._edit(channel, self.chance.choice(people_said))
        elif roll < 0.26 and stamps:
            self._delete(channel, self.chance.choice(stamps))
        elif roll < 0.30 and people_said:
            self._hang_on(channel, self.chance.choice(people_said))
        else:
            self._say(channel)

    def _rearrange(self, day: int) -> None:
        slack = self.slack
        if day == 0:
            slack.rename(OPEN, "town-square")
            slack.leave(CLOSED, "U3")
        elif day == 1:
            slack.make_private(TURNED)
            self._note(slack.channels[TURNED])
        elif day == 2:
            profile = {"display_name": "benkei", "real_name": "Ben Example"}
            slack.change_user("U2", profile=profile, updated=self.now_us // 1_000_000)
            slack.join(CLOSED, "U5")
        else:
            slack.rename(OPEN, "market")
            slack.leave(OPEN, "U4")
            slack.change_user("U4", deleted=True, updated=self.now_us // 1_000_000)

    def _note(self, channel: FakeChannel) -> None:
        ts = next(reversed(channel.messages))
        self.life.created[channel.slack_id, ts] = self.days

    def _say(self, channel: FakeChannel) -> None:
        self.count += 1
        ts = ts_from_micros(self.now_us)
        text = f"uq{self.count:04d}x: {self.chance.choice(WORDS)}. 明日までに決めます。"
        who: Json = {"user": self.chance.choice(channel.members)}
        roll = self.chance.random()
        if roll < 0.06:
            who = dict(ELSEWHERE)
        elif roll < 0.10:
            who = dict(UNKNOWN)
        elif roll < 0.16:
            who = dict(BOT)
        roots = [ts for ts, m in channel.messages.items() if not is_reply(m)]
        thread = ""
        if roots and self.chance.random() < 0.45:
            thread = self.chance.choice(roots)
            self.life.threads[channel.slack_id] |= {thread: thread, ts: thread}
            if who.get("user") in channel.members and self.chance.random() < 0.2:
                who["subtype"] = "thread_broadcast"
        user = who.pop("user")
        self.slack.say(channel.slack_id, user, text, ts, thread=thread, **who)
        self.life.created[channel.slack_id, ts] = self.days

    def _edit(self, channel: FakeChannel, ts: str) -> None:
        before = channel.messages[ts]["text"]
        words = before.split(" (")[0]
        text = f"{words} (now {self.chance.choice(WORDS)})" if self.chance.random() < 0.7 else "…"
        self.slack.edit(channel.slack_id, ts, text if text != before else "!", self._ts())

    def _hang_on(self, channel: FakeChannel, ts: str) -> None:
        link = f"https://example.com/{self.chance.randrange(1000)}"
        preview = {"fallback": f"A page about {self.chance.choice(WORDS)}", "title_link": link}
        self.slack.unfurl(channel.slack_id, ts, preview, at=self._ts())

    def _delete(self, channel: FakeChannel, ts: str) -> None:
        self.slack.delete(channel.slack_id, ts, self._ts())
        self.life.deleted[channel.slack_id, ts] = self.days

    def _ts(self) -> str:
        return ts_from_micros(self.now_us)


# Exports


def split(evening: Evening, chance: random.Random, parts: int) -> list[dict[str, Any]]:
    """An evening's export in so many parts, each with all the lists and some of the days' messages,
    some days in more than one, and in any order within a day. File name → content."""
    users = list(evening.users.values())
    lists: dict[str, Any] = {"users.json": users, "channels.json": [], "groups.json": []}
    for channel in evening.channels.values():
        name = "groups.json" if channel.is_private else "channels.json"
        lists[name].append(channel.as_json() | {"members": channel.members})
    made = [dict(lists) for _ in range(parts)]
    for channel in evening.channels.values():
        days: dict[str, list[Json]] = defaultdict(list)
        for message in channel.messages.values():
            day = from_micros(micros(message["ts"])).date().isoformat()
            days[day].append(channel.render(message))
        for day, messages in days.items():
            chance.shuffle(messages)
            cut = chance.randrange(len(messages) + 1) if parts > 1 else 0
            for some in (messages[:cut], messages[cut:]):
                for part in chance.sample(made, chance.choice([1, 1, 2]) if parts > 1 else 1):
                    part.setdefault(f"{channel.name}/{day}.json", []).extend(some)
    return made


def write(files: dict[str, Any], folder: Path) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return folder
