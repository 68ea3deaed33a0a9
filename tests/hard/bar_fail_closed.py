"""Slack is asked who may read what, and its answer is broken in twelve ways: nobody reads more.

Each round: a team is read while all is well; then people leave, channels close and open, a member
becomes a guest, and the next sync meets a broken answer of one method. What each reader may read is
held against Slack's own state (the oracle, in the fake) and against what they could read before: a
read that is in neither is a widened one. Once healed, one sync later, everybody reads just what
Slack's state says, and the workspace's memory is made again without what closed.
"""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

NAME = "15 fail closed"
SMALL_DATABASES = ()
PEOPLE, CHANNELS, MEMBERS, WHO = (
    *("users.list", "conversations.list", "conversations.members", "auth.test"),
)
# way → the methods whose answers it breaks; at small size only the first
WAYS: dict[str, tuple[str, ...]] = {
    "timeout": (CHANNELS, PEOPLE),
    "rate limit": (MEMBERS, PEOPLE, CHANNELS, WHO),
    "empty list": (CHANNELS, PEOPLE, MEMBERS),
    "partial page, then an error": (PEOPLE, CHANNELS, MEMBERS),
    "scope revoked": (MEMBERS, PEOPLE, CHANNELS, WHO),
    "cut at a limit": (CHANNELS, PEOPLE, MEMBERS),
    "malformed": (PEOPLE, CHANNELS, MEMBERS, WHO),
    "is_private missing": (CHANNELS,),
    "wrong team": (WHO,),
    "HTML": (CHANNELS, PEOPLE, MEMBERS, WHO),
    "looping cursor": (MEMBERS, PEOPLE, CHANNELS),
    "stale": ("",),
}
KEYS = {PEOPLE: "members", CHANNELS: "channels", MEMBERS: "members"}
READERS = {"ann": "U1", "ben": "U2", "gus": "U3", "cho": "U4", "dan": "U5"}
GUEST = "gus"
WITH_A_ROLE = ("ben", "gus", "dan")  # here, which gives them nothing that Slack takes
HOUR = timedelta(hours=1)
PATIENCE = 60.0  # seconds for a call that is to be answered
HASTE = 0.4  # for one that is not


class BrokenSlack(FakeSlack):
    """Answers one method wrongly, in one way, until it is healed."""

    def __init__(self) -> None:
        super().__init__()
        self.way, self.broken, self.call_count = "", "", 0

    def breaks(self, way: str, method: str) -> None:
        self.way, self.broken, self.call_count = way, method, 0
        self.page_size = 1 if way in ("partial page, then an error", "looping cursor") else 1000
        self.random_faults = self._whim

    def clear_faults(self) -> None:
        super().clear_faults()
        self.way = self.broken = ""
        self.page_size = 1000

    def _whim(self, method: str) -> Fault | None:
        if method != self.broken:
            return None
        self.call_count += 1
        if self.way == "timeout":
            time.sleep(2 * HASTE)
            return Fault.dropped()
        if self.way == "partial page, then an error":
            return Fault(500) if self.call_count > 1 else None
        return {
            "rate limit": Fault.rate_limited(120),
            "scope revoked": Fault.error("missing_scope", needed="channels:read"),
            "malformed": Fault(200, '{"ok": true, "members": ['),
            "HTML": Fault(200, "<!doctype html><title>Sign in</title>"),
        }.get(self.way)

    def answer(self, method: str, params: dict[str, str], authorization: str) -> dict[str, Any]:
        reply = super().answer(method, params, authorization)
        if method != self.broken:
            return reply
        key = KEYS.get(method, "")
        if self.way == "empty list":
            reply |= {key: [], "response_metadata": {"next_cursor": ""}}
        elif self.way == "cut at a limit":
            reply |= {key: reply[key][:1], "has_more": True, "response_metadata": {}}
        elif self.way == "is_private missing":
            for channel in reply[key]:
                for name in ("is_private", "is_group", "is_channel"):
                    channel.pop(name, None)
        elif self.way == "wrong team":
            reply["team_id"] = "T0OTHER"
        elif self.way == "looping cursor":
            reply["response_metadata"] = {"next_cursor": "again"}
            reply[key] = reply[key][:1]
        return json.loads(json.dumps(reply))


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    return judged(full=full)


def judged(*, full: bool) -> dict[str, Any]:
    reads = widened = rounds = 0
    wrong: list[str] = []
    for way, methods in WAYS.items():
        for method in methods if full else methods[:1]:
            with BrokenSlack() as slack:
                round_ = _Round(slack, way, method, rounds)
                rounds += 1
                for label, is_wrong in round_.run():
                    reads += 1
                    if is_wrong:
                        widened += "widened" in label
                        wrong.append(f"{way} of {method or 'everything'}: {label}")
    return {
        "n": reads,
        "ways": len(WAYS),
        "rounds": rounds,
        "widened": widened,
        "wrong": len(wrong),
        "first_wrong": wrong[:5],
        "pass": not wrong and reads >= 12 * 20,
    }


class _Round:
    def __init__(self, slack: BrokenSlack, way: str, method: str, number: int) -> None:
        from django.utils import timezone

        self.slack, self.way, self.method, self.number = slack, way, method, number
        self.now = timezone.now()

    def run(self) -> Iterator[tuple[str, bool]]:
        """(what was looked at, whether it was wrong) for each read of each reader."""
        self._begin()
        before = self._reads(self.now)
        for read in self._all():
            yield f"at first {read}", (read in before) != (read in self._truth())
        self._change()
        later = self.now + 2 * HOUR
        if self.way == "stale":
            later = self.now + 25 * HOUR
        else:
            self.slack.breaks(self.way, self.method)
            self._sync(later)
        after = self._reads(later)
        for read in self._all():
            yield f"widened {read}", read in after and read not in before | self._truth()
        if self.way == "stale":
            for reader, channel in self._all():
                yield f"widened, stale {reader} {channel}", (reader, channel) in after
        self.slack.clear_faults()
        healed = later + 2 * HOUR
        self._sync(healed)
        after = self._reads(healed)
        for read in self._all():
            is_told = self.slack.channels[read[1]].bot_is_in
            differs = (read in after) != (read in self._truth())
            yield f"after it healed {read}", differs and (is_told or read in after)
        yield from self._memory(healed)

    # -- Slack's side

    def _begin(self) -> None:
        from memories.models import Channel, Member, Person, User, Workspace
        from memories.pipeline.generate.passes import run_pass

        slack = self.slack
        for name, slack_id in READERS.items():
            slack.add_user(slack_id, name, **({"is_restricted": True} if name == GUEST else {}))
        everybody = list(READERS.values())
        slack.add_channel("C1", "closing", members=everybody[:2])
        slack.add_channel("C2", "staying", members=everybody)
        slack.add_channel("C3", "leaving", is_private=True, members=["U1", "U3", "U4"])
        slack.add_channel("C4", "opening", is_private=True, members=["U1"])
        slack.add_channel("C5", "joining", is_private=True, members=["U2", "U5"])
        slack.add_channel("C6", "lost", members=everybody)
        for n, channel_id in enumerate(slack.channels):
            for minute in range(3):
                at = self.now - timedelta(days=1) + timedelta(minutes=minute, seconds=n)
                text = f"We decided that zq{channel_id.lower()}x ships on Friday {minute + 1} May."
                slack.say(channel_id, "U1", text, f"{at.timestamp():.6f}")
        self.workspace = Workspace.objects.create(
            slug=f"closed{self.number}", name="closed", settings={"read_private_channels": True}
        )
        for channel_id in slack.channels:
            Channel.objects.create(
                workspace=self.workspace, slack_id=channel_id, name=channel_id, is_followed=True
            )
        self.users = {
            name: User.objects.create(username=f"{name}{self.number}") for name in READERS
        }
        for name in WITH_A_ROLE:
            Member.objects.create(workspace=self.workspace, user=self.users[name])
        self._sync(self.now)
        for name, slack_id in READERS.items():
            Person.objects.filter(workspace=self.workspace, slack_id=slack_id).update(
                user=self.users[name], linked_by="slack"
            )
        self.workspace.channels.update(start_us=0)
        self.workspace.refresh_from_db()
        run_pass(self.workspace, self.now)

    def _change(self) -> None:
        channels = self.slack.channels
        channels["C1"].is_private = True
        channels["C3"].members = ["U3"]  # ann and cho left
        channels["C4"].is_private = False
        channels["C5"].members = ["U2", "U4"]  # cho joined, dan was removed
        channels["C6"].is_private, channels["C6"].bot_is_in = True, False
        self.slack.users["U2"]["is_restricted"] = True
        self.slack.users["U5"]["deleted"] = True

    def _truth(self) -> set[tuple[str, str]]:
        """Who may read which channel in Slack."""
        pairs = set()
        for name, slack_id in READERS.items():
            user = self.slack.users[slack_id]
            if user.get("deleted"):
                continue
            for channel in self.slack.channels.values():
                is_open = not channel.is_private and not user.get("is_restricted")
                if is_open or slack_id in channel.members:
                    pairs.add((name, channel.slack_id))
        return pairs

    def _all(self) -> list[tuple[str, str]]:
        return [(name, channel) for name in READERS for channel in self.slack.channels]

    # -- our side

    def _sync(self, now: Any) -> None:
        from memories.pipeline.sync.sync import sync_workspace
        from memories.slack.web import SlackClient

        timeout = HASTE if self.slack.way == "timeout" else PATIENCE
        client = SlackClient(
            TOKEN, self.slack.url, timeout=timeout, pause=0.001, sleep=lambda _: None
        )
        self.workspace.refresh_from_db()
        sync_workspace(self.workspace, client, now)

    def _reads(self, now: Any) -> set[tuple[str, str]]:
        """What each may read: the channel and, where there are any, its messages and memories."""
        from memories.models import Channel, MemoryVersion, Message, Reader

        pairs = set()
        for name, user in self.users.items():
            reader = Reader.of(user, now=now)
            ids: set[str] = set()
            for rows, column in (
                (Channel.objects.visible_to(reader), "slack_id"),
                (Message.objects.visible_to(reader), "channel__slack_id"),
                (MemoryVersion.objects.visible_to(reader), "memory__channel__slack_id"),
            ):
                team = column.replace("slack_id", "workspace")
                rows_here = rows.filter(**{team: self.workspace})
                ids |= set(rows_here.values_list(column, flat=True))
            pairs |= {(name, slack_id) for slack_id in ids}
        return pairs

    def _memory(self, now: Any) -> Iterator[tuple[str, bool]]:
        """The workspace's: without what closed at once, and made again from the rest."""
        from memories.models import Memory, MemoryVersion, Reader
        from memories.pipeline.generate.passes import run_pass

        memory = Memory.objects.get(
            workspace=self.workspace, scope="workspace", memory_type="long_term"
        )
        yield "no workspace memory", memory.head == 0
        run_pass(self.workspace, now)
        memory.refresh_from_db()
        text = memory.current.content if memory.current else ""
        yield "the workspace's memory is not made again", "zqc2x" not in text
        shown = MemoryVersion.objects.filter(memory=memory).visible_to(
            Reader.of(self.users["ann"], now=now)
        )
        contents = "\n".join(shown.values_list("content", flat=True))
        for channel in ("c1", "c3", "c4", "c5", "c6"):
            yield (
                f"widened: {channel} shared with the workspace memory",
                f"zq{channel}x" in contents + text,
            )


if __name__ == "__main__":
    import sys

    from tests.hard.__main__ import main

    sys.argv[1:] = ["bar_fail_closed"]
    sys.exit(main())
