"""A channel of the fake Slack: what stands in it, its threads, and how Slack tells of both."""

import bisect
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from memories.rules.ingest.timestamps import micros

Json = dict[str, Any]

# What each kind of conversation needs: channels:read, groups:history and so on.
SCOPE_WORDS = {
    "public_channel": "channels",
    "private_channel": "groups",
    "im": "im",
    "mpim": "mpim",
}
TOMBSTONE = {
    "type": "message",
    "subtype": "tombstone",
    "user": "USLACKBOT",
    "text": "This message was deleted.",
    "hidden": True,
}


@dataclass
class FakeChannel:
    slack_id: str
    name: str
    is_private: bool = False
    is_archived: bool = False
    bot_is_in: bool = True
    members: list[str] = field(default_factory=list)
    messages: dict[str, Json] = field(default_factory=dict)  # by ts; roots and replies
    threads: dict[str, set[str]] = field(default_factory=dict)  # ts of replies by that of the root
    topic: str = ""
    purpose: str = ""
    kind: str = ""  # "" (told by is_private), "im" or "mpim"
    shared_with: list[str] = field(default_factory=list)  # ids of other teams (Slack Connect)
    _standing: list[tuple[int, str]] = field(default_factory=list)  # of the channel itself, by time

    @property
    def type(self) -> str:
        return self.kind or ("private_channel" if self.is_private else "public_channel")

    @property
    def scope_word(self) -> str:
        return SCOPE_WORDS[self.type]

    def as_json(self) -> Json:
        return {
            "id": self.slack_id,
            "name": self.name,
            "is_channel": not self.is_private and not self.kind,
            "is_group": self.is_private and not self.kind,
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.is_private or bool(self.kind),
            "is_archived": self.is_archived,
            "is_member": self.bot_is_in,
            "is_shared": bool(self.shared_with),
            "is_ext_shared": bool(self.shared_with),
            "is_org_shared": False,
            "shared_team_ids": self.shared_with,
            "topic": {"value": self.topic, "creator": "", "last_set": 0},
            "purpose": {"value": self.purpose, "creator": "", "last_set": 0},
        }

    def put(self, message: Json) -> None:
        """Say it; what is said again under the same ts takes the old one's place."""
        ts = message["ts"]
        known = ts in self.messages
        self.messages[ts] = message
        if is_reply(message):
            self.threads.setdefault(message["thread_ts"], set()).add(ts)
        if stands(message) and not known:
            bisect.insort(self._standing, (micros(ts), ts))

    def take(self, ts: str) -> Json:
        """Delete it: a root with replies leaves a tombstone, everything else leaves nothing."""
        message = self.messages.pop(ts)
        if is_reply(message):
            self.threads[message["thread_ts"]].remove(ts)
        elif self.threads.get(ts):
            self.messages[ts] = {**TOMBSTONE, "ts": ts}
            return message
        if stands(message):
            self._standing.remove((micros(ts), ts))
        return message

    def standing(self, after_us: int = -1, before_us: int | None = None) -> list[Json]:
        """What the channel itself shows between two moments (exclusive), oldest first; answers in
        threads only when broadcast."""
        begin = bisect.bisect_left(self._standing, (after_us + 1, ""))
        end = None if before_us is None else bisect.bisect_left(self._standing, (before_us, ""))
        return [self.messages[ts] for _, ts in self._standing[begin:end]]

    def replies_of(self, thread_ts: str) -> list[Json]:
        return sorted((self.messages[ts] for ts in self.threads.get(thread_ts, ())), key=us_of)

    def told(self, message: Json) -> Json:
        """A message with what Slack adds to roots and replies when it is asked."""
        told = deepcopy(message)
        if is_reply(message):
            root = self.messages.get(message["thread_ts"], {})
            told["parent_user_id"] = root.get("user", "USLACKBOT")
        elif replies := self.replies_of(message["ts"]):
            users = list(dict.fromkeys(reply["user"] for reply in replies if "user" in reply))
            told |= {
                "thread_ts": message["ts"],
                "reply_count": len(replies),
                "reply_users": users,
                "reply_users_count": len(users),
                "latest_reply": replies[-1]["ts"],
            }
        return told


def is_reply(message: Json) -> bool:
    return bool(message.get("thread_ts", message["ts"]) != message["ts"])


def stands(message: Json) -> bool:
    return not is_reply(message) or message.get("subtype") == "thread_broadcast"


def us_of(message: Json) -> int:
    return micros(message["ts"])
