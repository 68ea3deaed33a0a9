"""One history in a thousand orders, overlaps and splits through exports, syncs and events.

Four days of talk (tests/hard/lived.py: late replies, broadcasts, edits, previews, deletions, renames,
a channel that turns private) reach a fresh workspace each time in another way: syncs on some of the
evenings, exports of some in parts that overlap, events late, doubled and out of order; passes of
the offline summariser at the end, and in between for some. At the end the messages, threads and
tombstones must be what the fake Slack knows, and so the same in every order; and after one more look
at Slack's own lists, which alone tell who is what and in what, the channels and people are too. Each
message is covered by one segment of its channel, and by no line of any other.

Nothing comes before it happened, and everything may come as late as it likes. What then cannot
be decided from the objects alone, and is left out:

- A deletion that nobody told and no sync saw: an export does not name what is not in it. So of a
  message that no whole sync saw come and go, the event of its deletion arrives at some time.
- A preview that came and went again without an edit: neither form is dated, the longer one stays.
- Two exports of one day: an export is dated by the last day that it holds.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memories.llm.offline import OfflineSummariser
from memories.models import Channel, Line, Message, Segment, SlackBudget, SlackEvent, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest.events import process_event, store_payload
from memories.pipeline.ingest.importing import import_export
from memories.pipeline.sync.sync import sync_workspace
from memories.rules.ingest.timestamps import to_micros
from memories.slack.export import Export
from memories.slack.web import SlackClient
from tests.hard import lived
from tests.hard.orders import END, Evenings, Key, Order, Step
from tests.slack.fake_slack import TEAM_ID, TOKEN

NAME = "11 orders"
SMALL_DATABASES = ()

ORDERS = {True: 1000, False: 8}
LIVES = {True: 20, False: 2}  # histories, each in its share of the orders
PASSES = {True: 20, False: 7}  # every so many orders have passes of the summariser in between


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    count = ORDERS[full]
    if full and database_url.startswith("sqlite"):
        count //= 5
    wrong: list[str] = []
    ways: Counter[str] = Counter()
    covered = 0
    for number in range(LIVES[full]):
        life = lived.live(seed * 1000 + number)
        with Evenings(life, work / f"life-{number}", seed) as slack:
            for order in range(number, count, LIVES[full]):
                has_passes = order % PASSES[full] == 0
                steps = Order(slack, random.Random(f"{seed}/{order}")).steps()
                ways.update(step.what for step in steps)
                lines = _Run(slack, steps, has_passes=has_passes).go(order)
                covered += has_passes
                wrong += [f"life {number}, order {order}: {line}" for line in lines]
    return {
        "n": count,
        "with_passes": covered,
        **{f"{what}s": number for what, number in sorted(ways.items())},
        "messages": len(life.created),
        "deleted": len(life.deleted),
        "different": len({line.partition(":")[0] for line in wrong}),
        "wrong": wrong[:5],
        "pass": not wrong,
    }


class _Run:
    """An order, lived through by a fresh workspace."""

    def __init__(self, slack: Evenings, steps: list[Step], *, has_passes: bool) -> None:
        self.slack = slack
        self.steps = steps
        self.has_passes = has_passes

    def go(self, number: int) -> list[str]:
        """Run the order and return the errors at the end."""
        self.workspace = Workspace.objects.create(slug=f"order-{number}", name="Order")
        # Pauses close the segments of four days, and threads have some of their own.
        self.workspace.change_settings(
            {"message_threshold": 5, "thread_min_messages": 2, "read_private_channels": True}
        )
        try:
            self._sync(0, lived.moment(0))
            channels = Channel.objects.filter(workspace=self.workspace)
            channels.update(is_followed=True, start_us=to_micros(lived.BEGIN))
            for step in self.steps:
                self._do(step)
            wrong = list(_differences(self.workspace, self.slack.life, "message"))
            self._sync(lived.DAYS, lived.moment(END + 2))
            for what in ("message", "channel", "person"):
                wrong += _differences(self.workspace, self.slack.life, what)
            self._pass(END + 60)
            return [*wrong, *_coverage(self.workspace)]
        finally:
            # Events find their workspace by its team, and are known by their ids.
            self.workspace.save_team_id("")
            SlackEvent.objects.all().delete()
            SlackBudget.objects.all().delete()

    def _do(self, step: Step) -> None:
        now = lived.moment(max(step.at, 0.01))
        if step.what == "sync":
            self._sync(step.evening, now, full=step.full)
        elif step.path is not None:
            with Export(step.path) as export:
                import_export(self.workspace, export, now)
        elif step.event is not None:
            store_payload(step.event.body)
            for event in SlackEvent.objects.of_team(TEAM_ID).due(now):
                process_event(event, now)
        if self.has_passes and step.what == "sync":
            self._pass(step.at)

    def _sync(self, evening: int, now: Any, *, full: bool = False) -> None:
        server = self.slack.servers[evening]
        client = SlackClient(TOKEN, server.url, timeout=60, pause=0.001)
        report = sync_workspace(self.workspace, client, now, full=full)
        failed = [line for channel in report.channels for line in channel.failures]
        if report.error or failed:
            raise RuntimeError(report.error or failed[0])

    def _pass(self, at: float) -> None:
        while run_pass(self.workspace, lived.moment(at), OfflineSummariser()).left:
            pass


# Expected rows


def _differences(workspace: Workspace, life: lived.Life, what: str) -> Iterator[str]:
    """Return differences between the rows and the fake Slack's state on the last evening."""
    compared: dict[str, tuple[Any, Any]] = {
        "message": (_messages(workspace), _sent_messages(life)),
        "channel": (_channels(workspace), _open(life)),
        "person": (_people(workspace), _listed_people(life)),
    }
    rows, expected = map(dict, compared[what])
    for key in sorted(rows.keys() | expected.keys()):
        if rows.get(key) != expected.get(key):
            yield f"{what} {key} is {rows.get(key)}, not {expected.get(key)}"


def _sent_messages(life: lived.Life) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """Return the last state of each message, with its thread."""
    for channel_id, ts in life.created:
        thread = life.threads[channel_id].get(ts, "")
        if (channel_id, ts) in life.deleted:
            yield (channel_id, ts), ("deleted", thread, None, "", "", "", "")
            continue
        message = life.evenings[-1].channels[channel_id].messages[ts]
        yield (
            (channel_id, ts),
            (
                "live",
                thread,
                message["user"] or message["bot_id"],
                message.get("username", ""),
                message.get("subtype", ""),
                message.get("edited", {}).get("ts", ""),
                message["text"],
            ),
        )


def _messages(workspace: Workspace) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    rows = Message.objects.filter(channel__workspace=workspace)
    for row in rows.select_related("channel", "author"):
        author = row.author.slack_id if row.author else None
        text = row.text.partition("\n")[0]  # attachments follow
        values = (row.state, row.thread_ts, author, row.username, row.subtype, row.edited_ts, text)
        yield (row.channel.slack_id, row.ts), values


def _open(life: lived.Life) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for channel in life.evenings[-1].channels.values():
        kind = "private" if channel.is_private else "public"
        yield channel.slack_id, (channel.name, kind, channel.is_archived, sorted(channel.members))


def _channels(workspace: Workspace) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for row in workspace.channels.all():
        members = sorted(row.people.values_list("slack_id", flat=True))
        yield row.slack_id, (row.name, row.kind, row.is_archived, members)


def _listed_people(life: lived.Life) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return people of the list, and people who are known only from a message."""
    for slack_id, user in life.evenings[-1].users.items():
        yield slack_id, (user["profile"]["display_name"], user.get("deleted", False))
    authors = {values[2] for _, values in _sent_messages(life)}
    for slack_id, name in lived.STRANGERS.items():
        if slack_id in authors:
            yield slack_id, (name, False)


def _people(workspace: Workspace) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Without those of whom no message is left: who saw one of theirs knows them."""
    authors = set(
        Message.objects.filter(channel__workspace=workspace).values_list("author", flat=True)
    )
    for row in workspace.people.all():
        if row.slack_id not in lived.STRANGERS or row.pk in authors:
            yield row.slack_id, (row.name, row.is_deleted)


def _coverage(workspace: Workspace) -> Iterator[str]:
    """Every message that can be remembered lies in one segment of its channel, and the lines that were
    made of it belong to that segment alone."""
    messages = Message.objects.filter(channel__workspace=workspace).rememberable()
    segment_of = dict(messages.values_list("pk", "segment"))
    for pk, segment in segment_of.items():
        if segment is None:
            yield f"covered: message {pk} is in no segment"
    segments = Segment.objects.of_channel().filter(channel__workspace=workspace)
    cited = Line.sources.through.objects.filter(line__version__segment__in=segments)
    pairs = set(cited.values_list("message", "line__version__segment"))
    for pk, segment in pairs:
        if segment_of.get(pk, segment) != segment:
            yield f"covered: message {pk} of segment {segment_of[pk]} is in lines of {segment}"
    if not pairs:
        yield "covered: nothing was summarized"
