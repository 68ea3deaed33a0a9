"""Compare the import of an export with a ``bulk_create`` of the same rows.

    python bench/import_rows.py [--rows 200000] [--rounds 2]

It uses a temporary database on the server of DATABASE_URL, or in a SQLite file. It prints a JSON line with
the rates of the best rounds, their ratio (at least 0.5), and the growth of the memory in the first import
(below 64 MiB).
"""

import argparse
import json
import random
import sys
import time
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.database import empty_database

RATIO = 0.5
RISE_MIB = 64
CHANNELS = 8
PEOPLE = 300
PER_DAY = 2000
WORDS = (
    "the deploy went out and build is green again can you look at invoice before friday 明日の"
    " リリース 確認 お願いします thanks <@U0000001> see <https://example.com/a/b|this page> :tada:"
).split(" ")


def write_export(path: Path, rows: int, *, chance: random.Random) -> None:
    """Write a zip file as Slack does, with threads, edits, bots and joins."""
    people = [f"U{number:07d}" for number in range(PEOPLE)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        users = [{"id": p, "team_id": "T1", "name": p.lower(), "profile": {}} for p in people]
        channels = [
            {"id": f"C{n:07d}", "name": f"channel-{n}", "members": people} for n in range(CHANNELS)
        ]
        file.writestr("users.json", json.dumps(users))
        file.writestr("channels.json", json.dumps(channels))
        for number, channel in enumerate(channels):
            remaining = rows // CHANNELS + (number < rows % CHANNELS)
            day = 19_700
            roots: list[str] = []
            while remaining:
                count = min(PER_DAY, remaining)
                messages = [
                    _message(day * 86_400 + second * 40, number, people, roots, chance)
                    for second in range(count)
                ]
                name = time.strftime("%Y-%m-%d", time.gmtime(day * 86_400))
                file.writestr(f"{channel['name']}/{name}.json", json.dumps(messages))
                remaining -= count
                day += 1


def _message(
    second: int, channel: int, people: list[str], roots: list[str], chance: random.Random
) -> dict[str, object]:
    ts = f"{second}.{channel:06d}"
    text = " ".join(chance.choices(WORDS, k=chance.randint(3, 40)))
    message: dict[str, object] = {"type": "message", "ts": ts, "text": text, "team": "T1"}
    message["user"] = chance.choice(people)
    message["client_msg_id"] = f"{chance.getrandbits(128):032x}"
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    message["blocks"] = [{"type": "rich_text", "block_id": "x", "elements": [section]}]
    kind = chance.random()
    if kind < 0.02:
        message |= {"subtype": "channel_join"}
    elif kind < 0.07:
        message |= {"subtype": "bot_message", "bot_id": "B0000001", "username": "build"}
    elif kind < 0.12:
        message |= {"thread_ts": ts, "reply_count": 3, "latest_reply": ts}
        roots.append(ts)
    elif kind < 0.35 and roots:
        message["thread_ts"] = roots[-1]
    if chance.random() < 0.05:
        message["edited"] = {"user": message["user"], "ts": ts}
    return message


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with empty_database() as folder:
        path = folder / "export.zip"
        write_export(path, options.rows, chance=random.Random(1))
        result = measure(path, options.rows, options.rounds)
    print(json.dumps(result))
    return 0 if result["holds"] else 1


def measure(path: Path, rows: int, rounds: int) -> dict[str, object]:
    import psutil
    from django.db import connection
    from django.utils import timezone

    from memories.models import Message, Workspace
    from memories.pipeline.ingest.importing import import_export
    from memories.slack.export import Export

    process = psutil.Process()
    workspace = Workspace.objects.create(slug="bench", name="bench")
    import_seconds, bare_seconds = [], []
    rise = 0
    for number in range(rounds):
        Message.objects.all()._raw_delete("default")
        highest = start = process.memory_info().rss

        def sample(where: str, seen: int) -> None:
            nonlocal highest
            highest = max(highest, process.memory_info().rss)

        began = time.perf_counter()
        with Export(path) as export:
            report = import_export(workspace, export, timezone.now(), progress=sample)
        import_seconds.append(time.perf_counter() - began)
        assert report.tally.is_complete and not report.is_partial
        if number == 0:
            rise = highest - start
            names = [f.attname for f in Message._meta.concrete_fields if f.attname != "id"]
            stored = list(Message.objects.order_by("pk").values_list(*names))
            assert len(stored) == rows, (len(stored), rows)
        Message.objects.all()._raw_delete("default")
        copies = [Message(**dict(zip(names, values, strict=True))) for values in stored]
        began = time.perf_counter()
        Message.objects.bulk_create(copies, batch_size=1000)
        bare_seconds.append(time.perf_counter() - began)
        del copies
    ratio = min(bare_seconds) / min(import_seconds)
    rise_mib = rise / 2**20
    return {
        "database": connection.vendor,
        "rows": rows,
        "import_rows_per_second": round(rows / min(import_seconds)),
        "bare_rows_per_second": round(rows / min(bare_seconds)),
        "ratio": round(ratio, 3),
        "rise_mib": round(rise_mib, 1),
        "holds": ratio >= RATIO and rise_mib < RISE_MIB,
    }


if __name__ == "__main__":
    sys.exit(main())
