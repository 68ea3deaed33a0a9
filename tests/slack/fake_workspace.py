"""What a Slack workspace holds, and what people do in it.

Each act changes the workspace at once, and leaves the event that Slack would send the app in
``events``: the whole body, to be posted by whoever tests events (tests/slack/fake_events.py).
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
    """``clock``: seconds since 1970, for acts that do not say when."""

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
        """A ts of now that nothing else has."""
        with self._lock:
            self._last_us = max(self._last_us + 1, int(self.clock() * 1_000_000))
            return ts_from_micros(self._last_us)

    # Who is here

    def add_user(self, slack_id: str, name: str, **more: Any) -> str:
        """``more``: any field of a user; ``profile`` is put on top of the names."""
        profile = {"display_name": name, "real_name": f"{name.title()} Example"}
        profile |= more.pop("profile", {})
        user = {"id": slack_id, "team_id": self.team_id, "name": name, "profile": profile, **more}
        with self._lock:
            known = slack_id in self.users
            self.users[slack_id] = user
            if self.channels:  # before there are any the workspace is being set up
                self._tell({"type": "user_change" if known else "team_join", "user": user})
        return slack_id

    def change_user(self, slack_id: str, **values: Any) -> None:
        with self._lock:
            self.users[slack_id] |= values
            self._tell({"type": "user_change", "user": deepcopy(self.users[slack_id])})

    # Channels

    def add_channel(self, slack_id: str, name: str, **more: Any) -> FakeChannel:
        with self._lock:
            self.channels[slack_id] = FakeChannel(slack_id, name, **more)
            return self.channels[slack_id]

    def rename(self, channel_id: str, name: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.name = name
            told = {"id": channel_id, "name": name, "created": 1}
            self._tell_of(channel, "rename", told)

    def archive(self, channel_id: str, by: str = "U1", *, again: bool = True) -> None:
        """``again`` False takes it out of the archive."""
        with self._lock:
            channel = self.channels[channel_id]
            channel.is_archived = again
            self._tell_of(channel, "archive" if again else "unarchive", channel_id, user=by)

    def delete_channel(self, channel_id: str) -> None:
        with self._lock:
            self._tell_of(self.channels.pop(channel_id), "deleted", channel_id)

    def make_private(self, channel_id: str, *, private: bool = True) -> None:
        """The id stays. Slack has no event for this but a notice among the messages."""
        with self._lock:
            channel = self.channels[channel_id]
            channel.is_private = private
            subtype = f"channel_convert_to_{'private' if private else 'public'}"
            self.say(channel_id, "U1", "changed the channel", self.now_ts(), subtype=subtype)

    def share(self, channel_id: str, team_id: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.shared_with.append(team_id)
            told = {"type": "channel_shared", "connected_team_id": team_id, "channel": channel_id}
            self._tell(told)

    def unshare(self, channel_id: str, team_id: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.shared_with.remove(team_id)
            told = {
                "type": "channel_unshared",
                "previously_connected_team_id": team_id,
                "channel": channel_id,
                "is_ext_shared": bool(channel.shared_with),
            }
            self._tell(told)

    def join(self, channel_id: str, user: str) -> None:
        self._moved(channel_id, user, joined=True)

    def leave(self, channel_id: str, user: str) -> None:
        self._moved(channel_id, user, joined=False)

    def invite_bot(self, channel_id: str) -> None:
        with self._lock:
            self.channels[channel_id].bot_is_in = True
            self._moved(channel_id, BOT_USER, joined=True)

    def remove_bot(self, channel_id: str) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            channel.bot_is_in = False
            if BOT_USER in channel.members:
                channel.members.remove(BOT_USER)
            self._tell_of(channel, "left", channel_id)

    def _moved(self, channel_id: str, user: str, *, joined: bool) -> None:
        with self._lock:
            channel = self.channels[channel_id]
            if joined and user not in channel.members:
                channel.members.append(user)
            elif not joined:
                channel.members.remove(user)
            if channel.bot_is_in:
                told = {
                    "type": f"member_{'joined' if joined else 'left'}_channel",
                    "user": user,
                    "channel": channel_id,
                    "channel_type": "G" if channel.is_private else "C",
                    "team": self.team_id,
                }
                self._tell(told)

    # Messages

    def say(
        self, channel_id: str, user: str, text: str, ts: str, thread: str = "", **more: Any
    ) -> str:
        """A message, or a reply when ``thread`` names its root."""
        message = {"type": "message", "user": user, "text": text, "ts": ts, **more}
        if thread:
            message["thread_ts"] = thread
        with self._lock:
            channel = self.channels[channel_id]
            channel.put(message)
            self._tell_message(channel, channel.told(message) if thread else message, ts)
        return ts

    def edit(self, channel_id: str, ts: str, text: str, at: str = "") -> None:
        with self._lock:
            channel = self.channels[channel_id]
            message = channel.messages[ts]
            before = channel.told(message)
            at = at or self.now_ts()
            message["text"] = text
            message["edited"] = {"user": message["user"], "ts": at}
            self._tell_change(channel, channel.told(message), before, at)

    def unfurl(self, channel_id: str, ts: str, *attachments: Json, at: str = "") -> None:
        """Slack hangs something on a message, a preview of a link say: changed, and not edited."""
        with self._lock:
            channel = self.channels[channel_id]
            message = channel.messages[ts]
            before = channel.told(message)
            message["attachments"] = [*message.get("attachments", []), *attachments]
            self._tell_change(channel, channel.told(message), before, at or self.now_ts())

    def delete(self, channel_id: str, ts: str, at: str = "") -> None:
        """A root with replies leaves a tombstone, everything else leaves nothing."""
        with self._lock:
            channel = self.channels[channel_id]
            before = channel.told(channel.messages[ts])
            channel.take(ts)
            at = at or self.now_ts()
            if ts in channel.messages:
                self._tell_change(channel, channel.told(channel.messages[ts]), before, at)
                return
            gone = {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "deleted_ts": ts,
                "ts": at,
                "previous_message": before,
            }
            self._tell_message(channel, gone, at)

    # The app

    def uninstall(self) -> None:
        """Slack sends both events, in no certain order."""
        with self._lock:
            self.token_error = "account_inactive"
            self._tell({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [BOT_USER]}})
            self._tell({"type": "app_uninstalled"})

    def revoke_token(self) -> None:
        with self._lock:
            self.token_error = "token_revoked"
            self._tell({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [BOT_USER]}})

    # What Slack tells of it

    def told_events(self) -> list[Json]:
        """The bodies of all events since the last time; they are taken away."""
        with self._lock:
            told, self.events = self.events, []
            return told

    def _tell_change(self, channel: FakeChannel, message: Json, before: Json, at: str) -> None:
        changed = {
            "type": "message",
            "subtype": "message_changed",
            "hidden": True,
            "message": message,
            "previous_message": before,
            "ts": at,
        }
        self._tell_message(channel, changed, at)

    def _tell_message(self, channel: FakeChannel, message: Json, at: str) -> None:
        if channel.bot_is_in:
            kinds = {"public_channel": "channel", "private_channel": "group"}
            kind = kinds.get(channel.type, channel.type)
            told = {"channel": channel.slack_id, "channel_type": kind, "event_ts": at}
            self._tell(deepcopy(message) | told)

    def _tell_of(self, channel: FakeChannel, verb: str, told: Any, **more: str) -> None:
        """A thing that happens to a channel; of a private one only those in it hear."""
        if not channel.is_private or channel.bot_is_in or verb == "left":
            word = "group" if channel.is_private else "channel"
            self._tell({"type": f"{word}_{verb}", "channel": told, **more})

    def _tell(self, event: Json) -> None:
        event.setdefault("event_ts", self.now_ts())
        self.events.append(self.event_body(event))

    def event_body(self, event: Json) -> Json:
        """An event in what Slack puts around it, with an id of its own."""
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
