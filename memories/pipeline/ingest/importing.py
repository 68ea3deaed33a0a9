"""Import an export: its people, channels and messages become rows of a workspace."""

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
from memories.pipeline.locks import lock_workspace
from memories.rules.batches import in_batches
from memories.rules.ingest.messages import parse_ts
from memories.rules.ingest.outcomes import ObjectType, Outcome, Result, Tally, quarantined, skipped
from memories.rules.ingest.permalinks import find_domains
from memories.rules.ingest.slack_objects import parse_slack_id
from memories.rules.ingest.timestamps import HOUR, to_micros, ts_from_micros
from memories.rules.json_values import as_dict
from memories.slack.export import Export, ExportFolder

# How far back the imported channels are remembered: from the usual window on (None), from the first
# message on, or from this number of days before now.
Backfill = Literal["all"] | int | None
Progress = Callable[[str, int], None]

REPORT_EVERY = 200  # objects
UNLISTED = quarantined("of a channel in no list")
NOT_CHOSEN = skipped("not chosen")
_T = TypeVar("_T")


class WrongTeam(Exception):
    """None of the people in the export belongs to the workspace's team."""


@dataclass
class EarlierMessages:
    """The number of a channel's messages before its start mark. They are not remembered."""

    channel: Channel
    start_ts: str
    count: int

    @property
    def name(self) -> str:
        """The channel's name, "" for a private one: a reader of the report may not be in it."""
        return self.channel.name if self.channel.is_public else ""


@dataclass
class ImportReport:
    tally: Tally = field(default_factory=Tally)
    files: list[tuple[str, str]] = field(default_factory=list)  # broken ones, with the reason
    unlisted: list[tuple[str, int]] = field(default_factory=list)  # folder, objects in it
    earlier: list[EarlierMessages] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Whether an object was quarantined or has no outcome."""
        return bool(self.tally.count(result=Result.QUARANTINED)) or not self.tally.is_complete

    def as_json(self) -> dict[str, Any]:
        return {
            "partial": self.is_partial,
            **self.tally.as_json(),
            "quarantined_files": [{"file": name, "reason": reason} for name, reason in self.files],
            "unlisted_folders": [{"folder": name, "objects": n} for name, n in self.unlisted],
            "before_start": [
                {
                    "channel_id": earlier.channel.slack_id,
                    "channel_name": earlier.name,
                    "start_ts": earlier.start_ts,
                    "messages": earlier.count,
                }
                for earlier in self.earlier
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
    """Store the export's people, channels and messages. A repeated import has the same result.

    Direct and group messages are stored only with ``direct_messages``, for the members of their
    conversations. Messages of folders that are not chosen, or from before ``since_us``, are counted
    and not stored. Without ``admits`` its lists add nobody to a known private channel.
    ``domain`` is the part before .slack.com; the default is the most frequent domain in the files'
    addresses. ``progress`` is called with the folder and the number of objects read so far.

    Raise `Busy` during another import or sync of the workspace, and `WrongTeam`.
    """
    with lock_workspace(workspace):
        report = ImportReport()
        reporter = _ProgressReporter(progress)
        _set_team(workspace, export)
        # Without a day the age of its lists is unknown: what Slack itself reported is newer.
        known_at = min(now, export.newest_day or workspace.connected_at or now)
        report.tally.add(store_people(workspace, reporter.report("people", export.people())))
        listed = reporter.report("channels", export.channels())
        options = {"direct": direct_messages, "admits": admits}
        report.tally.add(store_channels(workspace, listed, known_at=known_at, **options))
        channels = {row.slack_id: row for row in workspace.channels.select_related("workspace")}
        imported: dict[int, Channel] = {}
        domains: Counter[str] = Counter()
        for folder in export.folders():
            raws = reporter.report(folder.name, export.messages(folder))
            raws = _with_domains(domains, raws)
            channel = channels.get(folder.slack_id)
            if folder.is_direct and not direct_messages:
                _count_only(folder, raws, report, skipped("direct messages"))
            elif channel is None:
                _count_only(folder, raws, report, UNLISTED)
            elif not is_chosen(folder):
                _count_only(folder, raws, report, NOT_CHOSEN)
            else:
                raws = _since(since_us, raws, report, now) if since_us else raws
                store = store_messages if folder.is_public else _store_private_messages
                report.tally.add(store(channel, raws, now))
                imported[channel.pk] = channel
        workspace.save_domain(domain or "".join(name for name, _ in domains.most_common(1)))
        _count_files(export, report)
        for channel in imported.values():
            _extend_start(channel, backfill, now)
        report.earlier = _earlier_messages(workspace, list(imported.values()), now)
    return report


class _ProgressReporter:
    """Counts the objects that pass through it, and reports their number every 200 objects."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen = 0

    def report(self, where: str, items: Iterator[_T]) -> Iterator[_T]:
        self._progress(where, self._seen)
        for item in items:
            self._seen += 1
            if self._seen % REPORT_EVERY == 0:
                self._progress(where, self._seen)
            yield item


def _with_domains(domains: Counter[str], raws: Iterator[object]) -> Iterator[object]:
    for raw in raws:
        domains.update(find_domains(raw))
        yield raw


def _set_team(workspace: Workspace, export: Export) -> None:
    """Set the workspace's team from its first export; raise `WrongTeam` for another team's."""
    teams = Counter(parse_slack_id(as_dict(raw).get("team_id")) for raw in export.people())
    del teams[""]
    if not workspace.team_id and teams:
        workspace.save_team_id(teams.most_common(1)[0][0])
    elif teams and workspace.team_id not in teams:
        raise WrongTeam


def _store_private_messages(channel: Channel, raws: Iterator[object], now: datetime) -> Tally:
    """Store the messages of a channel that is private in the export.

    They stay visible to members only, even when a later list made the channel public.
    """
    if not channel.is_public:
        return store_messages(channel, raws, now)
    with transaction.atomic():
        before = channel.messages.aggregate(newest=Max("pk"))["newest"] or 0
        missing = channel.messages.filter(state=Message.State.MISSING, was_private=False)
        roots = list(missing.values_list("pk", flat=True))
        tally = store_messages(channel, raws, now)
        channel.messages.filter(pk__gt=before).update(was_private=True)
        for keys in in_batches(roots):
            filled = channel.messages.filter(pk__in=keys)
            filled.exclude(state=Message.State.MISSING).update(was_private=True)
    return tally


def _count_only(
    folder: ExportFolder, raws: Iterator[object], report: ImportReport, outcome: Outcome
) -> None:
    count = sum(1 for _ in raws)
    report.tally.count_seen(ObjectType.MESSAGE, count)
    report.tally.count_outcome(ObjectType.MESSAGE, outcome, count)
    if outcome is UNLISTED:
        report.unlisted.append((folder.name, count))


def _since(
    since_us: int, raws: Iterator[object], report: ImportReport, now: datetime
) -> Iterator[object]:
    """Yield the messages from ``since_us`` on, and objects without a time; count the others."""
    now_us = to_micros(now)
    for raw in raws:
        us = parse_ts(as_dict(raw).get("ts"), now_us)
        if isinstance(us, int) and us < since_us:
            report.tally.count_seen(ObjectType.MESSAGE)
            report.tally.count_outcome(ObjectType.MESSAGE, NOT_CHOSEN)
        else:
            yield raw


def _count_files(export: Export, report: ImportReport) -> None:
    """Count the files that are broken or hold no objects."""
    report.files = sorted(set(export.broken))  # lists of people are read twice
    for _, reason in report.files:
        report.tally.count_seen(ObjectType.FILE)
        report.tally.count_outcome(ObjectType.FILE, quarantined(reason))
    for reason, count in export.junk.items():
        report.tally.count_seen(ObjectType.FILE, count)
        report.tally.count_outcome(ObjectType.FILE, skipped(reason), count)


def _extend_start(channel: Channel, backfill: Backfill, now: datetime) -> None:
    if backfill == "all":
        first = channel.messages.rememberable().in_order().first()
        if first is not None:
            channel.remember_from(first.micros)
    elif backfill is not None:
        channel.remember_from(to_micros(now) - backfill * 24 * HOUR)


def _earlier_messages(
    workspace: Workspace, channels: list[Channel], now: datetime
) -> list[EarlierMessages]:
    """Count the messages before each channel's start mark, or before the mark it would get now."""
    would_be = to_micros(now) - workspace.memory_settings.window_us
    counts = Message.objects.before_start(channels, would_be)
    return [
        EarlierMessages(channel, ts_from_micros(channel.start_us or would_be), counts[channel.pk])
        for channel in sorted(channels, key=lambda channel: channel.name)
        if channel.pk in counts
    ]
