"""Convert the messages of a script to the objects of a Slack export."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from memories.demo.ids import TEAM, channel_id, hash_to_int, person_id, slack_id
from memories.demo.markup import Markup, UnknownName
from memories.demo.script import Script, ScriptError, ScriptMessage, with_dates

Row = dict[str, Any]
Table = Mapping[str, Mapping[str, str]]


APP = "watchtower"  # the other bots are old integrations


class MessageBuilder:
    """Builds messages as of ``now``. ``people`` and ``bots`` are the tables of people.toml."""

    def __init__(self, now: datetime, people: Table, bots: Table, markup: Markup) -> None:
        self.now = now
        self.people = people
        self.bots = bots
        self.markup = markup

    def build(self, script: Script) -> list[Row]:
        """Return the rows of a channel, in the order of the script."""
        timestamps = self._timestamps(script)
        rows: list[Row] = []
        for message in script.messages:
            ts = timestamps[message.location]
            row = self._row(script, message, ts)
            if message.root is not None:
                row["thread_ts"] = timestamps[message.root.location]
                row["parent_user_id"] = self._author(message.root).get("user", "USLACKBOT")
                if "broadcast" in message.marks:
                    row["subtype"] = "thread_broadcast"
            elif message.replies:
                row |= self._thread(message, timestamps)
            rows.append(row)
            # As in Slack: a deleted message with replies becomes a tombstone (`_row`). Any other has
            # a `message_deleted` after it.
            if "deleted" in message.marks and not message.replies:
                deleted_ts = _changed_ts(ts, message, "deleted")
                rows.append(
                    {
                        "type": "message",
                        "subtype": "message_deleted",
                        "hidden": True,
                        "channel": channel_id(script.name),
                        "deleted_ts": ts,
                        "ts": deleted_ts,
                        "event_ts": deleted_ts,
                    }
                )
        return rows

    def _timestamps(self, script: Script) -> dict[str, str]:
        """Return the ts of each message by its `file:line`.

        A minute has five slots of 11 seconds. A message is in the first 9 seconds of its slot.
        """
        messages_in_minute: Counter[int] = Counter()
        timestamps: dict[str, str] = {}
        for message in script.messages:
            minute_start = int(message.moment.at(self.now).timestamp())
            index = messages_in_minute[minute_start]
            messages_in_minute[minute_start] += 1
            if index > 4:
                raise ScriptError(f"{message.location}: more than five lines in one minute")
            number = hash_to_int(script.name, message.location, message.text)
            ts = f"{minute_start + index * 11 + number % 9}.{number % 1_000_000:06}"
            if ts_key(ts) > ts_key(f"{int(self.now.timestamp())}.0"):
                raise ScriptError(f"{message.location}: said in the future")
            if message.root is not None and ts_key(ts) <= ts_key(timestamps[message.root.location]):
                raise ScriptError(f"{message.location}: a reply older than its message")
            timestamps[message.location] = ts
        return timestamps

    def _author(self, message: ScriptMessage) -> Row:
        """Return the fields of the author: a person, an app, or an old integration."""
        key = message.author
        if key is None:
            return {"subtype": "bot_message", "username": message.username}
        if key in self.bots:
            name = self.bots[key]["real_name"]
            if key == APP:
                profile = {
                    "id": slack_id("B", key),
                    "name": name,
                    "app_id": slack_id("A", key),
                    "team_id": TEAM,
                }
                return {
                    "user": person_id(key),
                    "bot_id": slack_id("B", key),
                    "bot_profile": profile,
                }
            return {"subtype": "bot_message", "bot_id": slack_id("B", key), "username": name}
        if key not in self.people:
            raise ScriptError(f"{message.location}: {key} is nobody in people.toml")
        return {"user": person_id(key)}

    def _row(self, script: Script, message: ScriptMessage, ts: str) -> Row:
        author = self._author(message)
        if "deleted" in message.marks and message.replies:
            return {
                "type": "message",
                "subtype": "tombstone",
                "user": "USLACKBOT",
                "hidden": True,
                "text": "This message was deleted.",
                "ts": ts,
            }
        try:
            written = with_dates(message.text, self.now)
            text = self.markup.text(written)
        except UnknownName as error:
            raise ScriptError(f"{message.location}: {error}") from None
        number = hash_to_int(script.name, message.location, "blocks")
        row: Row = {"type": "message", "text": text, "ts": ts, "team": TEAM, **author}
        if message.author in self.people:
            row["client_msg_id"] = str(
                UUID(int=hash_to_int(script.name, message.location) % 2**128)
            )
            if "join" in message.marks:
                row |= {"subtype": "channel_join", "text": f"<@{author['user']}> {text}"}
            elif "topic" in message.marks:
                topic = with_dates(message.marks["topic"], self.now)
                row |= {
                    "subtype": "channel_topic",
                    "topic": topic,
                    "text": f"<@{author['user']}> {text}",
                }
            elif "me" in message.marks:
                row["subtype"] = "me_message"
            elif number % 2:  # half of the messages
                row["blocks"] = self.markup.blocks(written, f"b{number % 10**6}")
        if "edited" in message.marks:
            row["edited"] = {"user": row.get("user"), "ts": _changed_ts(ts, message, "edited")}
        if "attach" in message.marks:
            row["attachments"] = [self._attachment(message)]
        if "file" in message.marks:
            row |= {"files": [self._file(message, ts)], "upload": True}
        if message.reactions:
            row["reactions"] = [
                self._reaction(message, *reaction) for reaction in message.reactions
            ]
        return row

    def _thread(self, root: ScriptMessage, timestamps: dict[str, str]) -> Row:
        replies = [
            {"user": self._author(reply).get("user"), "ts": timestamps[reply.location]}
            for reply in sorted(root.replies, key=lambda reply: ts_key(timestamps[reply.location]))
        ]
        users = list(dict.fromkeys(reply["user"] for reply in replies))
        return {
            "thread_ts": timestamps[root.location],
            "reply_count": len(replies),
            "reply_users_count": len(users),
            "reply_users": users,
            "replies": replies,
            "latest_reply": replies[-1]["ts"],
            "is_locked": False,
            "subscribed": False,
        }

    def _attachment(self, message: ScriptMessage) -> Row:
        head, _, text = message.marks["attach"].partition(" | ")
        colour, _, title = head.partition(" ")
        if not title or not text:
            raise ScriptError(
                f"{message.location}: an attachment is `* attach COLOUR TITLE | TEXT`"
            )
        return {
            "id": 1,
            "color": colour,
            "title": title,
            "text": text,
            "fallback": f"{title}: {text}",
        }

    def _file(self, message: ScriptMessage, ts: str) -> Row:
        parts = message.marks["file"].split(" ", 3)
        if len(parts) != 4 or not parts[2].isdigit():
            raise ScriptError(f"{message.location}: a file is `* file NAME TYPE BYTES TITLE`")
        name, kind, size, title = parts
        key = slack_id("F", message.location)
        return {
            "id": key,
            "created": int(ts.partition(".")[0]),
            "name": name,
            "title": title,
            "mimetype": kind,
            "filetype": name.rpartition(".")[2],
            "mode": "hosted",
            "user": self._author(message).get("user"),
            "size": int(size),
            "is_external": False,
            "url_private": f"https://files.slack.com/files-pri/{TEAM}-{key}/{name}",
        }

    def _reaction(self, message: ScriptMessage, name: str, keys: tuple[str, ...]) -> Row:
        unknown = set(keys) - set(self.people)
        if unknown:
            raise ScriptError(
                f"{message.location}: reaction by unknown {', '.join(sorted(unknown))}"
            )
        return {"name": name, "users": [person_id(key) for key in keys], "count": len(keys)}


def _changed_ts(ts: str, message: ScriptMessage, name: str) -> str:
    """Return the ts of the change ``name`` (edited, deleted).

    The mark's value `3m` means three minutes after the message. The reversed fraction makes it differ from the ts of the message.
    """
    mark = message.marks[name]
    if not (mark.endswith("m") and mark[:-1].isdigit()):
        raise ScriptError(f"{message.location}: {name} needs a delay such as `3m`")
    seconds, _, fraction = ts.partition(".")
    return f"{int(seconds) + 60 * int(mark[:-1])}.{fraction[::-1]}"


def ts_key(ts: str) -> tuple[int, int]:
    """Return a key that sorts like a ts in Slack."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds), int(fraction)
