"""Write the demo workspace as a Slack export: three weeks of an invented team.

people.toml and channels/*.txt contain the texts, in the format of script.py. The same `now` always gives
the same bytes.
"""

import json
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

from memories.demo.ids import TEAM, channel_id, person_id, slack_id
from memories.demo.markup import Markup
from memories.demo.messages import MessageBuilder, Row, ts_key
from memories.demo.script import TOKYO, Script, ScriptError, read_script, with_dates

HERE = Path(__file__).parent
DEMO_USER = "demo"
DEMO_OPERATOR = "operator"
DEMO_PASSWORD = "demo"  # noqa: S105  the printed login of a local demonstration
# The person of the account, a key of people.toml: in #pricing, not in #incident-lost-counts.
DEMO_PERSON = "grace"


def build_export(folder: Path, now: datetime) -> None:
    """Write the export into `folder`, as of `now`. Raise ``ScriptError`` for an invalid script."""
    workspace = _Workspace(now)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "users.json", workspace.users())
    _write(
        folder / "channels.json",
        [workspace.channel(s) for s in workspace.scripts if not s.is_private],
    )
    _write(
        folder / "groups.json", [workspace.channel(s) for s in workspace.scripts if s.is_private]
    )
    _write(folder / "integration_logs.json", [])
    for script in workspace.scripts:
        days: dict[str, list[Row]] = {}
        for row in sorted(workspace.messages.build(script), key=lambda row: ts_key(row["ts"])):
            day = datetime.fromtimestamp(int(row["ts"].partition(".")[0]), TOKYO).date()
            days.setdefault(day.isoformat(), []).append(row)
        (folder / script.name).mkdir(exist_ok=True)
        for name, rows in days.items():
            _write(folder / script.name / f"{name}.json", rows)


def scripts() -> list[Script]:
    """Return all channels, first #general, then by name."""
    scripts = [read_script(path) for path in sorted((HERE / "channels").glob("*.txt"))]
    return sorted(scripts, key=lambda script: (script.name != "general", script.name))


class _Workspace:
    def __init__(self, now: datetime) -> None:
        self.now = now
        tables = tomllib.loads((HERE / "people.toml").read_text("utf-8"))
        self.people: dict[str, dict[str, str]] = tables["people"]
        self.bots: dict[str, dict[str, str]] = tables["bots"]
        self.scripts = scripts()
        self.markup = Markup(
            {key: person_id(key) for key in self.people},
            {
                script.name: channel_id(script.name)
                for script in self.scripts
                if not script.is_private
            },
        )
        self.messages = MessageBuilder(now, self.people, self.bots, self.markup)
        self.started = min(
            message.moment.at(now) for script in self.scripts for message in script.messages
        ) - timedelta(days=200)

    def users(self) -> list[Row]:
        updated = int(self.started.timestamp())
        rows: list[Row] = []
        for key, person in (self.people | self.bots).items():
            is_bot = key in self.bots
            profile: Row = {
                "real_name": person["real_name"],
                "display_name": person.get("display_name", ""),
                "title": person.get("title", ""),
                "team": TEAM,
            }
            rows.append(
                {
                    "id": person_id(key),
                    "team_id": TEAM,
                    "name": key,
                    "deleted": False,
                    "real_name": person["real_name"],
                    "tz": "Asia/Tokyo",
                    "tz_label": "Japan Standard Time",
                    "tz_offset": 32400,
                    "profile": profile | ({"bot_id": slack_id("B", key)} if is_bot else {}),
                    "is_bot": is_bot,
                    "is_app_user": False,
                    "updated": updated,
                }
            )
        return rows

    def members(self, script: Script) -> list[str]:
        members = script.header["members"]
        keys = list(self.people) if members == "*" else members.split()
        unknown = set(keys) - set(self.people)
        if unknown:
            raise ScriptError(f"{script.path.name}: unknown members {', '.join(sorted(unknown))}")
        return keys

    def channel(self, script: Script) -> Row:
        creator = person_id(script.header["creator"])
        created = int(self.started.timestamp())
        row: Row = {
            "id": channel_id(script.name),
            "name": script.name,
            "created": created,
            "creator": creator,
            "is_archived": False,
            "is_general": script.name == "general",
            "is_private": script.is_private,
            "members": [person_id(key) for key in self.members(script)],
        }
        for key in ("topic", "purpose"):
            value = self.markup.text(with_dates(script.header[key], self.now))
            row[key] = {"value": value, "creator": creator, "last_set": created}
        return row


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
