"""The data of a fake Slack workspace, and methods for what people do in it.

Each method changes the workspace at once, and appends the event that Slack would send to
``events``, as a whole body. Tests post it with tests/slack/fake_events.py.
"""

import threading
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from memories.rules.ingest.timestamps import ts_from_micros
from tests.slack.fake_channel import FakeChannel, Json, is_reply

TOKEN = "xoxb-fake-token"
APP_TOKEN = "xapp-fake-token"
TEAM_ID = "T0FAKE"
APP_ID = "A0FAKE"
BOT_ID = "B0BOT"
BOT_USER = "U0BOT"

__all__ = ["TEAM_ID", "TOKEN", "FakeChannel", "FakeWorkspace", "Json", "is_reply"]


class FakeWorkspace:
    """``clock`` returns seconds since 1970, for acts without a time."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.name = "Fake Team"
        self.domain = "faketeam"
        self.team_id = TEAM_ID
        self.app_id = APP_ID
        self.users: dict[str, Json] = {}
        self.channels: dict[str, FakeChannel] = {}
        self.token_error = ""  # e.g. token_revoked
        self.events: list[Json] = []
        self._last_us = 0
        self._lock = threading.RLock()

    def now_ts(self) -> str:
        """Return a unique ts of now."""
        with self._lock:
            self._last_us = max(self._last_us + 1, int(self.clock() * 1_000_000))
            return ts_from_micros(self._last_us)

    # People

    def add_user(self, slack_id: str, name: str, **fields: Any) -> str:
        """``fields``: any field of a user; ``profile`` extends the names."""
        profile = {"display_name": name, "real_name": f"{name.title()} Example"}
        profile |= fields.pop("profile", {})
        user = {"id": slack_id, "team_id": self.team_id, "name": name, "profile": profile, **fields}
        with self._lock:
            is_change = slack_id in self.users
            self.users[slack_id] = user
            if self.channels:  # without channels the workspace is being set up
                self._send({"type": "user_change" if is_change else "team_join", "user": user})
        return slack_id

    def change_user(self, slack_id: str, **values: Any) -> None:
        with self._lock:
            self.users[slack_id] |= values
            self._send({"type": "user_change", "user": deepcopy(self.users[slack_id])})

    # Channels

    def add_channel(self, slack_id: str, name: str, **fields: Any) -> FakeChannel:
        with self._lock:
            self.channels[slack_id] = FakeChannel(slack_id, name, **fields)
            return self.channels[slack_id]

    def rename(self, channel_id: str, name: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.name = name
            info = {"id": channel_id, "name": name, "created": 1}
            self._send_channel_event(channel, "rename", info)

    def archive(self, channel_id: str, by: str = "U1", *, archived: bool = True) -> None:
        """``archived`` False unarchives the channel."""
        with self._lock:
            channel = self.channels[channel_id]
            channel.is_archived = archived
            self._send_channel_event(
                channel, "archive" if archived else "unarchive", channel_id, user=by
            )

    def delete_channel(self, channel_id: str) -> None:
        with self._lock:
            self._send_channel_event(self.channels.pop(channel_id), "deleted", channel_id)

    def make_private(self, channel_id: str, *, private: bool = True) -> None:
        """Change the kind. Slack reports it only by a notice among the messages."""
        with self._lock:
            channel = self.channels[channel_id]
            channel.is_private = private
            subtype = f"channel_convert_to_{'private' if private else 'public'}"
            self.say(channel_id, "U1", "changed the channel", self.now_ts(), subtype=subtype)

    def share(self, channel_id: str, team_id: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.shared_with.append(team_id)
            event = {"type": "channel_shared", "connected_team_id": team_id, "channel": channel_id}
            self._send(event)

    def join(self, channel_id: str, user: str) -> None:
        self._change_membership(channel_id, user, joined=True)

    def leave(self, channel_id: str, user: str) -> None:
        self._change_membership(channel_id, user, joined=False)

    def invite_bot(self, channel_id: str) -> None:
        with self._lock:
            self.channels[channel_id].bot_is_in = True
            self._change_membership(channel_id, BOT_USER, joined=True)

    def remove_bot(self, channel_id: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.bot_is_in = False
            if BOT_USER in channel.members:
                channel.members.remove(BOT_USER)
            self._send_channel_event(channel, "left", channel_id)

    def _change_membership(self, channel_id: str, user: str, *, joined: bool) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            if joined and user not in channel.members:
                channel.members.append(user)
            elif not joined:
                channel.members.remove(user)
            if channel.bot_is_in:
                event = {
                    "type": f"member_{'joined' if joined else 'left'}_channel",
                    "user": user,
                    "channel": channel_id,
                    "channel_type": "G" if channel.is_private else "C",
                    "team": self.team_id,
                }
                self._send(event)

    # Messages

    def say(
        self, channel_id: str, user: str, text: str, ts: str, thread: str = "", **fields: Any
    ) -> str:
        """Add a message, or a reply when ``thread`` is the ts of its root."""
        message = {"type": "message", "user": user, "text": text, "ts": ts, **fields}
        if thread:
            message["thread_ts"] = thread
        with self._lock:
            channel = self.channels[channel_id]
            channel.put(message)
            self._send_message(channel, channel.render(message) if thread else message, ts)
        return ts

    def edit(self, channel_id: str, ts: str, text: str, at: str = "") -> None:
        with self._lock:
            channel = self.channels[channel_id]
            message = channel.messages[ts]
            before = channel.render(message)
            at = at or self.now_ts()
            message["text"] = text
            message["edited"] = {"user": message["user"], "ts": at}
            self._send_change(channel, channel.render(message), before, at)

    def unfurl(self, channel_id: str, ts: str, *attachments: Json, at: str = "") -> None:
        """Add attachments, such as a preview of a link: a change without an edit."""
        with self._lock:
            channel = self.channels[channel_id]
            message = channel.messages[ts]
            before = channel.render(message)
            message["attachments"] = [*message.get("attachments", []), *attachments]
            self._send_change(channel, channel.render(message), before, at or self.now_ts())

    def delete(self, channel_id: str, ts: str, at: str = "") -> None:
        """Delete a message. Only a root with replies leaves a tombstone."""
        with self._lock:
            channel = self.channels[channel_id]
            before = channel.render(channel.messages[ts])
            channel.delete(ts)
            at = at or self.now_ts()
            if ts in channel.messages:
                self._send_change(channel, channel.render(channel.messages[ts]), before, at)
                return
            deletion = {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "deleted_ts": ts,
                "ts": at,
                "previous_message": before,
            }
            self._send_message(channel, deletion, at)

    # The app

    def uninstall(self) -> None:
        """Slack sends both events, in any order."""
        with self._lock:
            self.token_error = "account_inactive"
            self._send({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [BOT_USER]}})
            self._send({"type": "app_uninstalled"})

    # Events

    def take_events(self) -> list[Json]:
        """Return the bodies of all events since the last call."""
        with self._lock:
            events, self.events = self.events, []
            return events

    def _send_change(self, channel: FakeChannel, message: Json, before: Json, at: str) -> None:
        changed = {
            "type": "message",
            "subtype": "message_changed",
            "hidden": True,
            "message": message,
            "previous_message": before,
            "ts": at,
        }
        self._send_message(channel, changed, at)

    def _send_message(self, channel: FakeChannel, message: Json, at: str) -> None:
        if channel.bot_is_in:
            kinds = {"public_channel": "channel", "private_channel": "group"}
            kind = kinds.get(channel.type, channel.type)
            keys = {"channel": channel.slack_id, "channel_type": kind, "event_ts": at}
            self._send(deepcopy(message) | keys)

    def _send_channel_event(
        self, channel: FakeChannel, verb: str, info: Any, **fields: str
    ) -> None:
        """Send an event of a channel; events of a private one go only to its members."""
        if not channel.is_private or channel.bot_is_in or verb == "left":
            word = "group" if channel.is_private else "channel"
            self._send({"type": f"{word}_{verb}", "channel": info, **fields})

    def _send(self, event: Json) -> None:
        event.setdefault("event_ts", self.now_ts())
        self.events.append(self.event_body(event))

    def event_body(self, event: Json) -> Json:
        """Return an event in its envelope, with a unique id."""
        with self._lock:
            self._last_us += 1
            number = self._last_us
        return {
            "token": "a verification token, long out of use",
            "team_id": self.team_id,
            "context_team_id": self.team_id,
            "api_app_id": self.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{number:X}",
            "event_time": int(str(event.get("event_ts", "0")).partition(".")[0]),
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": self.team_id,
                    "user_id": BOT_USER,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": f"4-{number:X}",
        }
