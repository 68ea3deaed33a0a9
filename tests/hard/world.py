"""What the hard tests work on: workspaces, channels and messages whose words can be found again."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memories.models import Channel, Job, Message, Person, Workspace
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from tests.hard.model_client import FakeModel

BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PER_SEGMENT = 3  # messages: then a segment is full
SETTINGS = {
    "message_threshold": PER_SEGMENT,
    "thread_memories": False,
    "short_term_max_tokens": 200,
    "long_term_max_tokens": 4000,
}


@dataclass
class World:
    """Each message holds one word of its own, which says where it must be found in the end."""

    channels: list[Channel] = field(default_factory=list)
    words: dict[int, list[str]] = field(default_factory=dict)  # of each channel, oldest first
    _minutes: dict[int, int] = field(default_factory=dict)
    _authors: dict[int, Person] = field(default_factory=dict)
    _words: int = 0

    def add_workspace(self, slug: str, channels: int, **settings: object) -> list[Channel]:
        workspace = Workspace.objects.create(slug=slug, name=slug, settings=SETTINGS | settings)
        author = Person.objects.create(workspace=workspace, slack_id="U1", name="mika")
        made = []
        for number in range(channels):
            channel = Channel.objects.create(
                workspace=workspace,
                slack_id=f"C{slug.upper()}{number:04d}"[:32],
                name=f"{slug}-{number}",
                kind=Channel.Kind.PUBLIC,
            )
            channel.remember_from(to_micros(BEGIN - timedelta(days=1)))
            self.words[channel.pk] = []
            self._minutes[channel.pk] = 0
            made.append(channel)
        self._authors[workspace.pk] = author
        self.channels += made
        return made

    def feed(self, channel: Channel, segments: int = 1) -> list[str]:
        """Messages for so many full segments, after what the channel has; their words."""
        words = []
        rows = []
        for _ in range(segments * PER_SEGMENT):
            self._words += 1
            word = f"uq{self._words:06d}x"
            at = BEGIN + timedelta(minutes=self._minutes[channel.pk])
            self._minutes[channel.pk] += 1
            micros = to_micros(at)
            rows.append(
                Message(
                    channel=channel,
                    ts=ts_from_micros(micros),
                    micros=micros,
                    author=self._authors[channel.workspace_id],
                    text=f"{word} is what we settled for the blue door",
                )
            )
            words.append(word)
        Message.objects.bulk_create(rows)
        self.words[channel.pk] += words
        return words

    @property
    def total(self) -> int:
        return self._words


def is_at_rest(channels: Sequence[Channel] = ()) -> bool:
    """Every message is in a segment and no job is unfinished."""
    messages = Message.objects.filter(segment__isnull=True)
    jobs = Job.objects.unfinished()
    if channels:
        messages = messages.filter(channel__in=channels)
        jobs = jobs.filter(memory__channel__in=channels)
    return not messages.exists() and not jobs.exists()


def retry_the_dead() -> int:
    """What an operator does about dead letters; how many there were."""
    dead = list(Job.objects.filter(state=Job.State.DEAD))
    return sum(job.retry() for job in dead)


def offer(channels: Sequence[Channel]) -> None:
    """As after an import: a pass is queued for each workspace of these channels."""
    from memories.tasks import schedule_pass

    for workspace_id in sorted({channel.workspace_id for channel in channels}):
        schedule_pass(workspace_id)


def order(folder: Path, point: str, name: str, word: str = "kill") -> Path:
    """An order at a fail point, whole from its first moment on."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"draft-{point}{name}"
    draft.write_text(word)
    made = folder / f"{point}{name}"
    draft.rename(made)
    return made


def environment(model: FakeModel, orders: Path, **variables: str) -> dict[str, str]:
    """Of the trees of a hard test: this process's own, set by the frame, the model, and orders."""
    orders.mkdir(parents=True, exist_ok=True)
    own = {
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "none",
        "MEMORYHUB_MODEL": "fake",
        "MEMORYHUB_FAIL_POINTS": str(orders),
    }
    return {**os.environ, **own, **variables}
