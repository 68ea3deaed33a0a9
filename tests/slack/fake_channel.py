"""A channel of the fake Slack: its messages and threads."""

import bisect
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from memories.rules.ingest.timestamps import micros

Json = dict[str, Any]

# The first word of the scopes by kind of conversation: channels:read, groups:history and so on.
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
    threads: dict[str, set[str]] = field(default_factory=dict)  # ts of the root → ts of replies
    topic: str = ""
    purpose: str = ""
    kind: str = ""  # "" (see is_private), "im" or "mpim"
    shared_with: list[str] = field(default_factory=list)  # ids of other teams (Slack Connect)
    _in_channel: list[tuple[int, str]] = field(
        default_factory=list
    )  # messages outside of threads, by time

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
        """Add a message, or replace the one with the same ts."""
        ts = message["ts"]
        is_new = ts not in self.messages
        self.messages[ts] = message
        if is_reply(message):
            self.threads.setdefault(message["thread_ts"], set()).add(ts)
        if is_in_channel(message) and is_new:
            bisect.insort(self._in_channel, (micros(ts), ts))

    def delete(self, ts: str) -> Json:
        """Delete and return a message. Only a root with replies leaves a tombstone."""
        message = self.messages.pop(ts)
        if is_reply(message):
            self.threads[message["thread_ts"]].remove(ts)
        elif self.threads.get(ts):
            self.messages[ts] = {**TOMBSTONE, "ts": ts}
            return message
        if is_in_channel(message):
            self._in_channel.remove((micros(ts), ts))
        return message

    def in_channel(self, after_us: int = -1, before_us: int | None = None) -> list[Json]:
        """Return the messages between two times (exclusive), the oldest first.

        Replies are only among them when they were sent to the channel too.
        """
        begin = bisect.bisect_left(self._in_channel, (after_us + 1, ""))
        end = None if before_us is None else bisect.bisect_left(self._in_channel, (before_us, ""))
        return [self.messages[ts] for _, ts in self._in_channel[begin:end]]

    def replies_of(self, thread_ts: str) -> list[Json]:
        return sorted((self.messages[ts] for ts in self.threads.get(thread_ts, ())), key=us_of)

    def render(self, message: Json) -> Json:
        """Return a message with the fields that Slack adds to roots and replies."""
        rendered = deepcopy(message)
        if is_reply(message):
            root = self.messages.get(message["thread_ts"], {})
            rendered["parent_user_id"] = root.get("user", "USLACKBOT")
        elif replies := self.replies_of(message["ts"]):
            users = list(dict.fromkeys(reply["user"] for reply in replies if "user" in reply))
            rendered |= {
                "thread_ts": message["ts"],
                "reply_count": len(replies),
                "reply_users": users,
                "reply_users_count": len(users),
                "latest_reply": replies[-1]["ts"],
            }
        return rendered


def is_reply(message: Json) -> bool:
    return bool(message.get("thread_ts", message["ts"]) != message["ts"])


def is_in_channel(message: Json) -> bool:
    return not is_reply(message) or message.get("subtype") == "thread_broadcast"


def us_of(message: Json) -> int:
    return micros(message["ts"])
