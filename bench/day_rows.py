"""The rows of bench/day.py: the workspace before the day, what waits in it, and what became of the day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Min
from django.db.models.functions import Greatest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from bench.figures import percentiles
from bench.sizes_rows import Rows, Size, fill
from memories.models import (
    ApiKey,
    Channel,
    Job,
    Member,
    Memory,
    MemoryVersion,
    Message,
    ModelCall,
    Segment,
    SlackEvent,
    Workspace,
)
from memories.pipeline.generate.followups import channels_with_unmerged
from memories.pipeline.generate.plan import threads_to_plan
from memories.rules.ingest.timestamps import SECOND, from_micros, to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.settings import MemorySettings

TEAM = "T0DAY"
SEARCHES = ("release", "invoice", "確認", "予算")
PAGE_CHANNELS = 20  # whose pages are requested in turns
SETTLED = (Segment.Outcome.REMEMBERED, Segment.Outcome.NOTHING, Segment.Outcome.SKIPPED)


def make(size: Size, share: float) -> "DayRows":
    """Create the workspace. Its settings of time are ``share`` of the defaults.

    Its messages are older than the start marks: the hub read them before it began to remember.
    """
    rows, usual = fill(size), MemorySettings()
    begin_us = to_micros(timezone.now())
    Channel.objects.update(start_us=begin_us)
    Member.objects.update(role=Member.Role.ADMIN)  # for the page of the settings
    workspace = rows.workspace
    workspace.connect(TEAM, name=workspace.name, domain="", now=timezone.now())
    workspace.change_settings(
        {
            "read_private_channels": True,
            "conversation_idle_seconds": max(1, round(usual.conversation_idle_seconds * share)),
            "short_term_window_hours": max(1, round(usual.short_term_window_hours * share)),
        }
    )
    return DayRows(rows, begin_us)


class DayRows:
    """A view of the rows of the day: jobs and messages from before do not count."""

    def __init__(self, rows: Rows, begin_us: int) -> None:
        self.workspace, self.member = rows.workspace, rows.member
        self.begin_us = begin_us
        last = Job.objects.order_by("-pk").values_list("pk", flat=True)[0]
        self.jobs = Job.objects.filter(pk__gt=last)
        self.versions = MemoryVersion.objects.filter(job__pk__gt=last)
        self.messages = Message.objects.filter(micros__gte=begin_us)

    @property
    def idle_seconds(self) -> int:
        return self.workspace.memory_settings.conversation_idle_seconds

    def pages(self) -> dict[str, tuple[list[str], dict[str, str]]]:
        """Return the paths of each page and its headers: those of a session, or of an API key."""
        slug = self.workspace.slug
        channels = list(self.workspace.channels.filter(kind="public")[:PAGE_CHANNELS])
        memories = [Memory.objects.of_channel(row, MemoryType.LONG_TERM) for row in channels]
        search = reverse("search-index", args=[slug])
        paths = {
            "catch up": [reverse("catch_up-index", args=[slug])],
            "channel": [reverse("channels-detail", args=[slug, c.slack_id]) for c in channels],
            "long-term memory": [reverse("versions-detail", args=[m.current_id]) for m in memories],
            "jobs": [reverse("jobs-index", args=[slug])],
            "search": [f"{search}?{urlencode({'q': word})}" for word in SEARCHES],
            "settings": [reverse("settings-edit", args=[slug])],
        }
        client = Client()
        client.force_login(self.member)
        session = {
            "Cookie": "; ".join(f"{key}={cookie.value}" for key, cookie in client.cookies.items())
        }
        _, token = ApiKey.objects.issue(
            self.workspace, name="bench", by=None, user=self.member, requests_per_minute=10**6
        )
        contexts = [f"/api/v1/context?channel={channel.slack_id}" for channel in channels]
        key = {"Authorization": f"Bearer {token}"}
        return {name: (row, session) for name, row in paths.items()} | {"context": (contexts, key)}

    def backlog_seconds(self, now: datetime) -> float:
        """Return how long the oldest due job, stored event or queued pass has waited.

        Everything before the oldest event counts as synced from now on.
        """
        events = SlackEvent.objects.waiting().without_requests()
        oldest_event = events.aggregate(at=Min("received_at"))["at"]
        self.workspace.mark_synced(oldest_event or now)
        jobs = self.jobs.unfinished().due(now)
        begins = [
            oldest_event,
            jobs.aggregate(at=Min(Greatest("created_at", "retry_at")))["at"],  # NULL is less
            Workspace.objects.aggregate(at=Min("pass_due_at"))["at"],
        ]
        waits: list[float] = [(now - at).total_seconds() for at in begins if at is not None]
        return max([0.0, *waits])

    def job_counts(self) -> str:
        done = self.jobs.filter(state=Job.State.DONE).count()
        return f"{done} jobs done, {self.jobs.unfinished().count()} left"

    def is_at_rest(self) -> bool:
        """Return whether all of the day is stored, in segments, remembered and merged."""
        return not (
            SlackEvent.objects.waiting().exists()
            or Message.objects.waiting().exists()
            or Job.objects.unfinished().exists()
            or Segment.objects.filter(outcome=Segment.Outcome.WAITING).exists()
            or channels_with_unmerged(self.workspace).exists()
            or threads_to_plan(self.workspace, to_micros(timezone.now()))
        )

    def counts(self) -> dict[str, Any]:
        calls = ModelCall.objects.filter(
            began_at__gte=from_micros(self.begin_us), job__isnull=False
        )
        return {
            "stored": self.messages.count(),
            "remembered": self.messages.filter(segment__outcome__in=SETTLED).count(),
            "segments": Segment.objects.filter(created_us__gte=self.begin_us).count(),
            "jobs": self.jobs.count(),
            "failed jobs": self.jobs.filter(state=Job.State.DEAD).count(),
            "calls": calls.count(),
            "versions": self.versions.count(),
            "seconds from the end of a segment to its version": percentiles(self._delays()),
        }

    def _delays(self) -> Sequence[float]:
        of_segments = self.jobs.filter(memory__scope="channel", segment__isnull=False)
        ended = of_segments.filter(state=Job.State.DONE, finished_at__isnull=False)
        rows = ended.values_list("finished_at", "segment__closed_us")
        return [(to_micros(at) - closed_us) / SECOND for at, closed_us in rows if at is not None]
