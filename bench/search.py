"""How long a search takes, newest first, beside LIKE over the same rows in the same run.

    python bench/search.py [--rows 20000] [--times 15]

Works in a test database of its own on the server of DATABASE_URL (a SQLite file by default);
SEARCH_ROWS says how many messages, 1000000 say. For each kind of query it takes the SQL that the page
asks for its messages (the newest 51 that a reader of everything public may read, and the count up to
1,001) and the same question by LIKE, in turns. Prints a line of JSON: milliseconds in the middle and at
the 95th percentile. To hold, from 20,000 rows on: where few or none match, so that LIKE has to read all
rows, the index is the faster one; where very many do, and LIKE may stop early, it takes no more than
twice as long.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.database import empty_database

CHANNELS = 20
WORDS = (
    "the deploy went out and build is green again can you look at invoice before friday thanks"
    " 明日 の リリース を 確認 お願いします 請求書 東京 会議 資料 共有 します 検討 中 です 予定"
).split(" ")
RARE = 2_000  # one message in so many says these
QUERIES = {
    "common": "deploy",
    "two common": "deploy friday",
    "rare": "zebra",
    "phrase": '"build is green"',
    "one letter": "中",
    "two letters": "東京",
    "three letters": "請求書",
    "rare, two letters": "鯨肉",
    "no hit": "nowhere",
    "no hit, two letters": "駱駝",
}
FEW = 50
SLACK_MS = 3.0  # what is this fast is fast enough, whatever LIKE takes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    rows = int(os.environ.get("SEARCH_ROWS", "20000"))
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--times", type=int, default=15)
    options = parser.parse_args()
    with empty_database():
        result = measure(options.rows, options.times)
    print(json.dumps(result, ensure_ascii=False))
    return 0 if result["holds"] else 1


def measure(rows: int, times: int) -> dict[str, Any]:
    from django.db import connection

    indexed = fill(rows, random.Random(1))
    kinds = {name: compare(typed, times) for name, typed in QUERIES.items()}
    return {
        "database": connection.vendor,
        "rows": rows,
        "indexed_per_second": round(rows / indexed),
        "queries": kinds,
        "holds": all(map(holds, kinds.values())),
    }


def holds(one: dict[str, Any]) -> bool:
    times = 1 if one["hits"] <= FEW else 2
    return bool(one["p95_ms"] <= max(times * one["like_p95_ms"], SLACK_MS))


def fill(rows: int, chance: random.Random) -> float:
    """Messages in some channels, and their index; the seconds that the index took."""
    from django.db import connection

    from memories.models import Channel, Message, Workspace
    from memories.pipeline import search

    workspace = Workspace.objects.create(slug="bench", name="bench")
    channels = [
        Channel.objects.create(
            workspace=workspace, slack_id=f"C{number:07d}", name=f"c{number}", kind="public"
        )
        for number in range(CHANNELS)
    ]
    for begin in range(0, rows, 10_000):
        Message.objects.insert(
            [
                _message(number, channels[number % CHANNELS], chance)
                for number in range(begin, min(begin + 10_000, rows))
            ]
        )
    began = time.perf_counter()
    search.catch_up()
    seconds = time.perf_counter() - began
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return seconds


def _message(number: int, channel: Any, chance: random.Random) -> Any:
    from memories.models import Message

    words = chance.choices(WORDS, k=chance.randint(3, 30))
    if chance.randrange(RARE) == 0:
        words += ["zebra", "鯨肉"]
    us = (1_600_000_000 + number * 30) * 10**6
    ts = f"{us // 10**6}.{number % 1_000_000:06d}"
    return Message(channel=channel, ts=ts, micros=us, text=" ".join(words))


def compare(typed: str, times: int) -> dict[str, Any]:
    from django.utils import timezone

    from memories.models import Message, Reader
    from memories.rules.search_query import parse

    terms = parse(typed).terms
    visible = Message.objects.visible_to(Reader.public(timezone.now()))
    ours = visible.matching(terms)
    like = visible.order_by("-micros", "-pk")
    for word in typed.strip('"').split(" ") if '"' not in typed else [typed.strip('"')]:
        like = like.filter(text__contains=word)
    mine: list[float] = []
    others: list[float] = []
    for _ in range(times):
        mine.append(_timed(lambda: (len(ours[:51]), ours[:1001].count())))
        others.append(_timed(lambda: (len(like[:51]), like[:1001].count())))
    hits = ours[:1001].count()
    return {
        "hits": hits,
        "p50_ms": _at(mine, 0.5),
        "p95_ms": _at(mine, 0.95),
        "like_p50_ms": _at(others, 0.5),
        "like_p95_ms": _at(others, 0.95),
    }


def _timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _at(values: list[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 2)


if __name__ == "__main__":
    sys.exit(main())
