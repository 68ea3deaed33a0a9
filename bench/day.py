"""A day's traffic of a large hub in an hour: backlog, milliseconds of pages, and memory of the processes.

    python -m bench.day [--minutes 60] [--messages 2000000] [--channels 1000] [--workers 4]

Works in a database of its own on the PostgreSQL server of DATABASE_URL, with so many old messages. `serve`
and further `worker` processes run on it, with a fake model server that answers after --latency seconds.
20 messages of each channel arrive as signed events, nine of ten in 8 office hours with a peak. The settings
of time are as much shorter as the day is. A person requests pages once a second beside it.

No sync runs: Slack's limit of calls a minute is not shorter, so a sync of 1,000 channels takes 20 of the
60 minutes. The measurement sets the time of the last sync instead. The hourly merge of the workspace's
short-term memory and the timetable of the tasks are not shorter either.

To hold, or it exits with 1: no due job, stored event or queued pass waits for over 300 s. 95 of 100
requests of pages take at most 200 ms, and none fails. The mean memory of each process in the last quarter
of the day is at most 1.15 times that of the largest process of its kind in the second quarter. In the end
each message is in a segment that is remembered, all versions are merged, and no job has failed.
"""

import argparse
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.database import empty_database
from bench.figures import percentile, percentiles

if TYPE_CHECKING:
    from bench.day_load import PageReader, Traffic
    from bench.day_processes import ProcessMemory
    from bench.day_rows import DayRows

BACKLOG_SECONDS, PAGE_MS, GROWTH = 300.0, 200.0, 1.15
SAMPLE_SECONDS = 5  # between two looks at the backlog; the memory is read each second time
REST_SECONDS = 900  # for the work after the last message, besides the idle time
DAY_MINUTES = 24 * 60
PEOPLE = 300  # who write


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60, help="that the day takes (60)")
    parser.add_argument("--messages", type=int, default=2_000_000, help="old ones (2,000,000)")
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4, help="with the one of `serve` (4)")
    parser.add_argument("--latency", type=float, default=1.0, help="of the model, in seconds (1)")
    options = parser.parse_args()
    if not os.environ.get("DATABASE_URL", "").startswith("postgres"):
        parser.error("DATABASE_URL names no PostgreSQL server")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with empty_database(migrate=True) as folder:
        result = measure(options, folder)
    print(json.dumps({"bench": "day", **vars(options), **result}, ensure_ascii=False))
    return 0 if result["holds"] else 1


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from bench.day_load import PageReader, Traffic, write_day
    from bench.day_processes import ProcessMemory, serving
    from bench.day_rows import TEAM, make
    from bench.sizes_rows import Size
    from tests.hard.model_client import fake_model
    from tests.slack.fake_workspace import FakeWorkspace

    began = time.monotonic()
    rows = make(Size(options.messages, options.channels), options.minutes / DAY_MINUTES)
    print(f"{options.messages} old messages after {time.monotonic() - began:.0f} s", flush=True)
    slack = FakeWorkspace()
    slack.team_id = TEAM
    for channel in rows.workspace.channels.order_by("pk"):
        slack.add_channel(channel.slack_id, channel.name, is_private=not channel.is_public)
    people = list(rows.workspace.people.values_list("slack_id", flat=True)[:PEOPLE])
    posts = write_day(list(slack.channels), people, 60 * options.minutes, random.Random(3))
    latency = (options.latency, options.latency)
    stop = threading.Event()
    with (
        fake_model(folder, latency=latency) as model,
        serving(folder, model, options.workers) as (
            served,
            port,
        ),
    ):
        reader = PageReader(port, rows.pages(), stop)
        reader.warm_up()
        traffic = Traffic(slack, posts, f"http://127.0.0.1:{port}/slack/events/", stop)
        day = Day(rows, traffic, reader, ProcessMemory(), 60 * options.minutes)
        threads = [threading.Thread(target=part.run) for part in (traffic, reader)]
        try:
            for thread in threads:
                thread.start()
            day.watch(served)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    return day.result()


class Day:
    """The measurement of a day that takes so many seconds."""

    def __init__(
        self,
        rows: "DayRows",
        traffic: "Traffic",
        reader: "PageReader",
        memory: "ProcessMemory",
        seconds: float,
    ) -> None:
        self.rows, self.traffic, self.reader, self.memory = rows, traffic, reader, memory
        self.seconds = seconds
        self.backlogs: list[float] = []

    def watch(self, served: Any) -> None:
        """Sample until the day is over and all is remembered, or until that takes too long."""
        from django.utils import timezone

        began = time.monotonic()
        end = self.seconds + self.rows.idle_seconds + REST_SECONDS
        minutes = itertools.count()
        minute = next(minutes)
        for number in itertools.count():
            time.sleep(max(0.0, began + number * SAMPLE_SECONDS - time.monotonic()))
            passed = time.monotonic() - began
            self.backlogs.append(self.rows.backlog_seconds(timezone.now()))
            if number % 2 == 0 and passed < self.seconds:
                self.memory.sample(served, passed / self.seconds)
            is_over = passed > self.seconds and (passed > end or self.rows.is_at_rest())
            if passed >= 60 * minute or is_over:
                print(f"{passed / 60:5.1f} min: {self.progress()}", flush=True)
                minute = next(minutes)
            if is_over:
                return

    def progress(self) -> str:
        mib = sum(row[-1][1] for row in self.memory.samples.values())
        return (
            f"{self.traffic.accepted} of {len(self.traffic.posts)} messages, {self.rows.job_counts()},"
            f" backlog {self.backlogs[-1]:.0f} s, pages {percentile(self.reader.all_ms, 95):.0f} ms,"
            f" {mib:.0f} MiB, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors"
        )

    def result(self) -> dict[str, Any]:
        """Print the tables, and return the figures with whether the targets hold."""
        counts = self.rows.counts()
        pages = {name: percentiles(row) for name, row in self.reader.milliseconds.items()}
        pages["all"] = percentiles(self.reader.all_ms)
        print(f"\n{'page':24}{'p50 ms':>10}{'p95 ms':>10}{'max ms':>10}{'requests':>10}")
        for name, row in pages.items():
            print(f"{name:24}" + "".join(f"{value:10}" for value in row.values()))
        memory = self.memory.quarters()
        growing = self.memory.growing(GROWTH)
        print(f"\n{'MiB, mean of each quarter':30}")
        for name, quarters in memory.items():
            cells = "".join(f"{mib:10}" for mib in quarters)
            print(f"{name:30}{cells}{'  GROWS' if name in growing else ''}")
        backlog = percentiles(self.backlogs)
        sent = len(self.traffic.posts)
        targets = {
            "backlog": backlog["max"] <= BACKLOG_SECONDS,
            "pages": pages["all"]["p95"] <= PAGE_MS and not self.reader.errors,
            "memory": not growing,
            "remembered": counts["remembered"] == sent and self.rows.is_at_rest(),
            "failed jobs": counts["failed jobs"] == 0,
        }
        print()
        for name, is_met in targets.items():
            print(f"{name:30}{'holds' if is_met else 'MISSED'}")
        return {
            "posts": sent,
            "accepted": self.traffic.accepted,
            "sender_late_seconds": round(self.traffic.latest, 1),
            **counts,
            "backlog_seconds": backlog,
            "page_ms": pages,
            "page_errors": self.reader.errors[:5],
            "mib": {name: [quarters[0], quarters[3]] for name, quarters in memory.items()},
            "targets": targets,
            "holds": all(targets.values()),
        }


if __name__ == "__main__":
    sys.exit(main())
