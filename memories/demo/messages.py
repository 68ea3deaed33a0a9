"""From a script's lines to the message rows of Slack's day files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from memories.demo.ids import TEAM, channel_id, digest, person_id, slack_id
from memories.demo.markup import Markup, UnknownName
from memories.demo.script import Said, Script, ScriptError, with_dates

Row = dict[str, Any]
Cast = Mapping[str, Mapping[str, str]]


class Talk:
    """Writes rows as of `now`; `people` and `bots` are the tables of people.toml."""

    def __init__(self, now: datetime, people: Cast, bots: Cast, markup: Markup) -> None:
        self.now = now
        self.people = people
        self.bots = bots
        self.markup = markup

    def messages(self, script: Script) -> list[Row]:
        """Every row of the channel's day files, in the script's order."""
        stamps = self._stamps(script)
        rows: list[Row] = []
        for said in script.said:
            ts = stamps[said.where]
            row = self._row(script, said, ts)
            if said.root is not None:
                row["thread_ts"] = stamps[said.root.where]
                row["parent_user_id"] = self._author(said.root).get("user", "USLACKBOT")
                if "broadcast" in said.marks:
                    row["subtype"] = "thread_broadcast"
            elif said.replies:
                row |= self._thread(said, stamps)
            rows.append(row)
            if "deleted" in said.marks and not said.replies:
                gone = _later(ts, said)
                rows.append(
                    {
                        "type": "message",
                        "subtype": "message_deleted",
                        "hidden": True,
                        "channel": channel_id(script.name),
                        "deleted_ts": ts,
                        "ts": gone,
                        "event_ts": gone,
                    }
                )
        return rows

    def _stamps(self, script: Script) -> dict[str, str]:
        """`file:line` → ts. Lines of one minute follow each other by seconds."""
        taken: dict[int, int] = {}
        stamps: dict[str, str] = {}
        for said in script.said:
            minute = int(said.moment.at(self.now).timestamp())
            place = taken[minute] = taken.get(minute, -1) + 1
            if place > 4:
                raise ScriptError(f"{said.where}: more than five lines in one minute")
            number = digest(script.name, said.where, said.text)
            stamp = f"{minute + place * 11 + number % 9}.{number % 1_000_000:06}"
            if exact(stamp) > exact(f"{int(self.now.timestamp())}.0"):
                raise ScriptError(f"{said.where}: said in the future")
            if said.root is not None and exact(stamp) <= exact(stamps[said.root.where]):
                raise ScriptError(f"{said.where}: a reply older than its message")
            stamps[said.where] = stamp
        return stamps

    def _author(self, said: Said) -> Row:
        """The fields that say who spoke, in the three ways Slack has them."""
        key = said.author
        if key is None:
            return {"subtype": "bot_message", "username": said.username}
        if key in self.bots:
            name = self.bots[key]["real_name"]
            if key == "watchtower":  # an app of today's kind; the others are old integrations
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
            raise ScriptError(f"{said.where}: {key} is nobody in people.toml")
        return {"user": person_id(key)}

    def _row(self, script: Script, said: Said, ts: str) -> Row:
        author = self._author(said)
        if "deleted" in said.marks and said.replies:
            return {
                "type": "message",
                "subtype": "tombstone",
                "user": "USLACKBOT",
                "hidden": True,
                "text": "This message was deleted.",
                "ts": ts,
            }
        try:
            words = with_dates(said.text, self.now)
            text = self.markup.text(words)
        except UnknownName as error:
            raise ScriptError(f"{said.where}: {error}") from None
        number = digest(script.name, said.where, "blocks")
        row: Row = {"type": "message", "text": text, "ts": ts, "team": TEAM, **author}
        if said.author in self.people:
            row["client_msg_id"] = str(UUID(int=digest(script.name, said.where) % 2**128))
            if "join" in said.marks:
                row |= {"subtype": "channel_join", "text": f"<@{author['user']}> {text}"}
            elif "topic" in said.marks:
                topic = with_dates(said.marks["topic"], self.now)
                row |= {
                    "subtype": "channel_topic",
                    "topic": topic,
                    "text": f"<@{author['user']}> {text}",
                }
            elif "me" in said.marks:
                row["subtype"] = "me_message"
            elif number % 2:
                row["blocks"] = self.markup.blocks(words, f"b{number % 10**6}")
        if "edited" in said.marks:
            row["edited"] = {"user": row.get("user"), "ts": _later(ts, said)}
        if "attach" in said.marks:
            row["attachments"] = [self._attachment(said)]
        if "file" in said.marks:
            row |= {"files": [self._file(said, ts)], "upload": True}
        if said.reactions:
            row["reactions"] = [self._reaction(said, *reaction) for reaction in said.reactions]
        return row

    def _thread(self, root: Said, stamps: dict[str, str]) -> Row:
        replies = [
            {"user": self._author(reply).get("user"), "ts": stamps[reply.where]}
            for reply in sorted(root.replies, key=lambda reply: exact(stamps[reply.where]))
        ]
        users = list(dict.fromkeys(reply["user"] for reply in replies))
        return {
            "thread_ts": stamps[root.where],
            "reply_count": len(replies),
            "reply_users_count": len(users),
            "reply_users": users,
            "replies": replies,
            "latest_reply": replies[-1]["ts"],
            "is_locked": False,
            "subscribed": False,
        }

    def _attachment(self, said: Said) -> Row:
        head, _, text = said.marks["attach"].partition(" | ")
        colour, _, title = head.partition(" ")
        if not title or not text:
            raise ScriptError(f"{said.where}: an attachment is `* attach COLOUR TITLE | TEXT`")
        return {
            "id": 1,
            "color": colour,
            "title": title,
            "text": text,
            "fallback": f"{title}: {text}",
        }

    def _file(self, said: Said, ts: str) -> Row:
        parts = said.marks["file"].split(" ", 3)
        if len(parts) != 4 or not parts[2].isdigit():
            raise ScriptError(f"{said.where}: a file is `* file NAME TYPE BYTES TITLE`")
        name, kind, size, title = parts
        key = slack_id("F", said.where)
        return {
            "id": key,
            "created": int(ts.partition(".")[0]),
            "name": name,
            "title": title,
            "mimetype": kind,
            "filetype": name.rpartition(".")[2],
            "mode": "hosted",
            "user": self._author(said).get("user"),
            "size": int(size),
            "is_external": False,
            "url_private": f"https://files.slack.com/files-pri/{TEAM}-{key}/{name}",
        }

    def _reaction(self, said: Said, name: str, keys: tuple[str, ...]) -> Row:
        unknown = set(keys) - set(self.people)
        if unknown:
            raise ScriptError(f"{said.where}: reaction by unknown {', '.join(sorted(unknown))}")
        return {"name": name, "users": [person_id(key) for key in keys], "count": len(keys)}


def _later(ts: str, said: Said) -> str:
    """The ts of an edit or deletion, its `Nm` minutes after the message."""
    mark = said.marks.get("edited") or said.marks.get("deleted") or ""
    if not (mark.endswith("m") and mark[:-1].isdigit()):
        raise ScriptError(f"{said.where}: edited and deleted say after how long: `3m`")
    seconds, _, fraction = ts.partition(".")
    return f"{int(seconds) + 60 * int(mark[:-1])}.{fraction[::-1]}"


def exact(ts: str) -> tuple[int, int]:
    """A ts as a pair that sorts as Slack sorts."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds), int(fraction)
