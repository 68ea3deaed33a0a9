"""The demo workspace: three weeks of an invented team's talk, as a standard Slack export folder.

The words are in people.toml and channels/*.txt (their form: script.py). Only the standard library
is used, and the same `now` always gives the same bytes.
"""

import json
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

from memories.demo.ids import TEAM, channel_id, person_id, slack_id
from memories.demo.markup import Markup
from memories.demo.messages import Row, Talk, exact
from memories.demo.script import TOKYO, Script, ScriptError, read_script, with_dates

HERE = Path(__file__).parent
DEMO_USER = "demo"
DEMO_PASSWORD = "demo"  # noqa: S105  the printed login of a local demonstration
# Who logs in, a key of people.toml: a member of #pricing, not of #incident-lost-counts.
DEMO_PERSON = "grace"


def build_export(folder: Path, now: datetime) -> None:
    """Write the workspace into `folder` (made if absent), as of `now` (aware).

    Raises ScriptError for a script line that cannot be read.
    """
    workspace = _Workspace(now)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "users.json", workspace.users())
    _write(
        folder / "channels.json", [workspace.channel(s) for s in workspace.scripts if not s.private]
    )
    _write(folder / "groups.json", [workspace.channel(s) for s in workspace.scripts if s.private])
    _write(folder / "integration_logs.json", [])
    for script in workspace.scripts:
        days: dict[str, list[Row]] = {}
        for row in sorted(workspace.talk.messages(script), key=lambda row: exact(row["ts"])):
            day = datetime.fromtimestamp(int(row["ts"].partition(".")[0]), TOKYO).date()
            days.setdefault(day.isoformat(), []).append(row)
        (folder / script.name).mkdir(exist_ok=True)
        for name, rows in days.items():
            _write(folder / script.name / f"{name}.json", rows)


def scripts() -> list[Script]:
    """All channels, #general first, then by name."""
    scripts = [read_script(path) for path in sorted((HERE / "channels").glob("*.txt"))]
    return sorted(scripts, key=lambda script: (script.name != "general", script.name))


class _Workspace:
    def __init__(self, now: datetime) -> None:
        self.now = now
        cast = tomllib.loads((HERE / "people.toml").read_text("utf-8"))
        self.people: dict[str, dict[str, str]] = cast["people"]
        self.bots: dict[str, dict[str, str]] = cast["bots"]
        self.scripts = scripts()
        self.markup = Markup(
            {key: person_id(key) for key in self.people},
            {script.name: channel_id(script.name) for script in self.scripts if not script.private},
        )
        self.talk = Talk(now, self.people, self.bots, self.markup)
        self.started = min(
            message.moment.at(now) for script in self.scripts for message in script.messages
        ) - timedelta(days=200)

    def users(self) -> list[Row]:
        updated = int(self.started.timestamp())
        rows: list[Row] = []
        for key, who in (self.people | self.bots).items():
            bot = key in self.bots
            profile: Row = {
                "real_name": who["real_name"],
                "display_name": who.get("display_name", ""),
                "title": who.get("title", ""),
                "team": TEAM,
            }
            rows.append(
                {
                    "id": person_id(key),
                    "team_id": TEAM,
                    "name": key,
                    "deleted": False,
                    "real_name": who["real_name"],
                    "tz": "Asia/Tokyo",
                    "tz_label": "Japan Standard Time",
                    "tz_offset": 32400,
                    "profile": profile | ({"bot_id": slack_id("B", key)} if bot else {}),
                    "is_bot": bot,
                    "is_app_user": False,
                    "updated": updated,
                }
            )
        return rows

    def members(self, script: Script) -> list[str]:
        named = script.head["members"]
        keys = list(self.people) if named == "*" else named.split()
        unknown = set(keys) - set(self.people)
        if unknown:
            raise ScriptError(f"{script.path.name}: unknown members {', '.join(sorted(unknown))}")
        return keys

    def channel(self, script: Script) -> Row:
        creator = person_id(script.head["creator"])
        created = int(self.started.timestamp())
        row: Row = {
            "id": channel_id(script.name),
            "name": script.name,
            "created": created,
            "creator": creator,
            "is_archived": False,
            "is_general": script.name == "general",
            "is_private": script.private,
            "members": [person_id(key) for key in self.members(script)],
        }
        for key in ("topic", "purpose"):
            value = self.markup.text(with_dates(script.head[key], self.now))
            row[key] = {"value": value, "creator": creator, "last_set": created}
        return row


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
