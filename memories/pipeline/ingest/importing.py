"""An export → people, channels and messages of a workspace."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from django.db import transaction
from django.db.models import Max

from memories.models import Channel, Message, Workspace
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.locks import storing
from memories.rules.ingest.message_text import as_dict
from memories.rules.ingest.messages import parse_ts
from memories.rules.ingest.outcomes import ObjectType, Outcome, Result, Tally, quarantined, skipped
from memories.rules.ingest.permalinks import find_domains
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.ingest.timestamps import HOUR, to_micros, ts_from_micros
from memories.slack.export import Export, ExportFolder

# How far back the imported channels are to be remembered: as they would be anyway (None), from
# their first message on, or from so many days before now.
Backfill = Literal["all"] | int | None
Progress = Callable[[str, int], None]

REPORT_EVERY = 200  # objects
ROOTS_AT_ONCE = 500  # keys in one query
UNLISTED = quarantined("of a channel in no list")
NOT_CHOSEN = skipped("not chosen")
_T = TypeVar("_T")


class WrongTeam(Exception):
    """None of the people of this export belongs to the workspace's team."""


@dataclass
class EarlierMessages:
    """A channel's messages before its start mark: stored, and not remembered."""

    channel: Channel
    start_ts: str
    count: int

    @property
    def name(self) -> str:
        """Empty of a private one: whoever reads the report may not be in it."""
        return self.channel.name if self.channel.is_public else ""


@dataclass
class ImportReport:
    tally: Tally = field(default_factory=Tally)
    files: list[tuple[str, str]] = field(default_factory=list)  # broken ones, with the reason
    unlisted: list[tuple[str, int]] = field(default_factory=list)  # folder, objects in it
    earlier: list[EarlierMessages] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Something was not understood and left out, or its outcome is not known."""
        return bool(self.tally.count(result=Result.QUARANTINED)) or not self.tally.is_complete

    def as_json(self) -> dict[str, Any]:
        return {
            "partial": self.is_partial,
            **self.tally.as_json(),
            "quarantined_files": [{"file": name, "reason": why} for name, why in self.files],
            "unlisted_folders": [{"folder": name, "objects": n} for name, n in self.unlisted],
            "before_start": [
                {
                    "channel_id": channel_start.channel.slack_id,
                    "channel_name": channel_start.name,
                    "start_ts": channel_start.start_ts,
                    "messages": channel_start.count,
                }
                for channel_start in self.earlier
            ],
        }


def import_export(
    workspace: Workspace,
    export: Export,
    now: datetime,
    *,
    backfill: Backfill = None,
    direct_messages: bool = False,
    is_chosen: Callable[[ExportFolder], bool] = lambda folder: True,
    since_us: int = 0,
    domain: str = "",
    admits: bool = True,
    progress: Progress = lambda where, seen: None,
) -> ImportReport:
    """Store all that the export holds; ``progress`` is told where it is and how much it has seen.

    Direct and group messages only with ``direct_messages``: as channels of their members alone.
    Of a folder that is not ``wanted`` the messages are counted and left out; so are those of before
    ``since_us``. Unless it ``admits``, its lists let nobody into a private channel that is known.
    ``domain`` is the part before .slack.com; without it, what most addresses of files and of shown
    messages have is taken.

    Stopped anywhere and run again it comes to the same end. Raises `Busy` when another import or
    sync of the workspace is at work, and `WrongTeam`.
    """
    with storing(workspace):
        report = ImportReport()
        tell = _Teller(progress)
        _settle_team(workspace, export)
        # Without a day nobody knows how old its lists are: what Slack itself told is newer.
        known_at = min(now, export.newest_day or workspace.connected_at or now)
        people = tell.through("people", export.people())
        report.tally.add(store_people(workspace, people))
        listed = tell.through("channels", export.channels())
        report.tally.add(
            store_channels(
                workspace, listed, known_at=known_at, direct=direct_messages, admits=admits
            )
        )
        channels = {row.slack_id: row for row in workspace.channels.select_related("workspace")}
        imported: dict[int, Channel] = {}
        domains: Counter[str] = Counter()
        for folder in export.folders():
            raws = _counting(domains, tell.through(folder.name, export.messages(folder)))
            channel = channels.get(folder.slack_id)
            if folder.is_direct and not direct_messages:
                _leave_out(folder, raws, report, skipped("direct messages"))
            elif channel is None:
                _leave_out(folder, raws, report, UNLISTED)
            elif not is_chosen(folder):
                _leave_out(folder, raws, report, NOT_CHOSEN)
            else:
                if since_us:
                    raws = _said_since(since_us, raws, report, now)
                store = store_messages if folder.is_public else _store_in_private
                report.tally.add(store(channel, raws, now))
                imported[channel.pk] = channel
        workspace.learn_domain(domain or "".join(name for name, _ in domains.most_common(1)))
        _count_files(export, report)
        for channel in imported.values():
            _widen(channel, backfill, now)
        report.earlier = _earlier(workspace, list(imported.values()), now)
    return report


class _Teller:
    """Counts what goes through, and says so now and then."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen = 0

    def through(self, where: str, items: Iterator[_T]) -> Iterator[_T]:
        self._progress(where, self._seen)
        for item in items:
            self._seen += 1
            if self._seen % REPORT_EVERY == 0:
                self._progress(where, self._seen)
            yield item


def _counting(domains: Counter[str], raws: Iterator[object]) -> Iterator[object]:
    for raw in raws:
        domains.update(find_domains(raw))
        yield raw


def _settle_team(workspace: Workspace, export: Export) -> None:
    """Learn the workspace's team from its first export; refuse another team's."""
    teams = Counter(parse_slack_id(as_dict(raw).get("team_id")) for raw in export.people())
    del teams[""]
    if not workspace.team_id and teams:
        workspace.join_team(teams.most_common(1)[0][0])
    elif teams and workspace.team_id not in teams:
        raise WrongTeam


def _store_in_private(channel: Channel, raws: Iterator[object], now: datetime) -> Tally:
    """What an export holds of a private channel is for its members, even where a later one has told
    that the channel became public."""
    if not channel.is_public:
        return store_messages(channel, raws, now)
    with transaction.atomic():
        before = channel.messages.aggregate(newest=Max("pk"))["newest"] or 0
        missing = channel.messages.filter(state=Message.State.MISSING, was_private=False)
        roots = list(missing.values_list("pk", flat=True))
        tally = store_messages(channel, raws, now)
        channel.messages.filter(pk__gt=before).update(was_private=True)
        for begin in range(0, len(roots), ROOTS_AT_ONCE):
            filled = channel.messages.filter(pk__in=roots[begin : begin + ROOTS_AT_ONCE])
            filled.exclude(state=Message.State.MISSING).update(was_private=True)
    return tally


def _leave_out(
    folder: ExportFolder, raws: Iterator[object], report: ImportReport, outcome: Outcome
) -> None:
    count = sum(1 for _ in raws)
    report.tally.count_seen(ObjectType.MESSAGE, count)
    report.tally.count_outcome(ObjectType.MESSAGE, outcome, count)
    if outcome is UNLISTED:
        report.unlisted.append((folder.name, count))


def _said_since(
    since_us: int, raws: Iterator[object], report: ImportReport, now: datetime
) -> Iterator[object]:
    """What is older is counted; what tells no time is let through, to be counted as that."""
    now_us = to_micros(now)
    for raw in raws:
        us = parse_ts(as_dict(raw).get("ts"), now_us)
        if isinstance(us, int) and us < since_us:
            report.tally.count_seen(ObjectType.MESSAGE)
            report.tally.count_outcome(ObjectType.MESSAGE, NOT_CHOSEN)
        else:
            yield raw


def _count_files(export: Export, report: ImportReport) -> None:
    """Only files that hold no objects, or break; the others are counted by what they hold."""
    # What the team's people are settled from is read twice.
    report.files = sorted(set(export.broken))
    for _, reason in report.files:
        report.tally.count_seen(ObjectType.FILE)
        report.tally.count_outcome(ObjectType.FILE, quarantined(reason))
    for reason, count in export.junk.items():
        report.tally.count_seen(ObjectType.FILE, count)
        report.tally.count_outcome(ObjectType.FILE, skipped(reason), count)


def _widen(channel: Channel, backfill: Backfill, now: datetime) -> None:
    if backfill == "all":
        first = channel.messages.rememberable().in_order().first()
        if first is not None:
            channel.remember_from(first.micros)
    elif backfill is not None:
        channel.remember_from(to_micros(now) - backfill * 24 * HOUR)


def _earlier(workspace: Workspace, channels: list[Channel], now: datetime) -> list[EarlierMessages]:
    """What lies before the start marks; where none is fixed yet, before where it would be now."""
    window = workspace.memory_settings.window_us
    would_be = to_micros(now) - window
    counts = Message.objects.before_start(channels, would_be)
    return [
        EarlierMessages(channel, ts_from_micros(channel.start_us or would_be), counts[channel.pk])
        for channel in sorted(channels, key=lambda channel: channel.name)
        if channel.pk in counts
    ]
