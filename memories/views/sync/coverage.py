"""Coverage of channels for pages: how much is read, remembered and waiting."""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Count, Max, Sum

from memories.models import Channel, Message, Segment
from memories.pipeline.sync.coverage import Coverage, coverage_of
from memories.rules.generate.coverage import MessageCounts, Waiting, build_waiting
from memories.rules.generate.segments import should_update_short_term_memory
from memories.rules.ingest.timestamps import to_micros
from memories.views.access.access import WorkspaceAccess

Bar = list[tuple[str, int, int]]  # (CSS class, x, width) of each part


def share_bar(share: MessageCounts, width: int) -> Bar:
    remembered, waiting, skipped = share.widths(width)
    return [
        ("remembered", 0, remembered),
        ("waiting", remembered, waiting),
        ("skipped", remembered + waiting, skipped),
    ]


def reading_bar(coverage: Coverage, channel: Channel, width: int) -> Bar:
    """Return the time from the start mark to the newest read message, with its gaps."""
    if channel.start_us is None:
        return []
    if coverage.end is None:
        return [("waiting", 0, width)]
    start, end = channel.start_us, to_micros(coverage.end)

    def x_of(moment: datetime | None) -> int:
        us = to_micros(moment) if moment else start
        return min(width, max(0, width * (us - start) // max(1, end - start)))

    edges = ((min(x_of(gap.begin), width - 2), x_of(gap.end)) for gap in coverage.gaps)
    return [("remembered", 0, width), *(("waiting", x, max(2, to - x)) for x, to in edges)]


def find_coverage(access: WorkspaceAccess, channel: Channel, now: datetime) -> Coverage | None:
    """Return the coverage, None in a workspace that is not connected."""
    return coverage_of(channel, now) if access.workspace.connected_at else None


def shares_of(
    access: WorkspaceAccess,
    channels: Iterable[Channel],
    now_us: int,
    *,
    remembering: Collection[int | None],
) -> dict[int, tuple[MessageCounts, Waiting | None]]:
    """Return by channel id how many messages are remembered, and why others wait.

    ``remembering`` are the keys of the channels with a short-term text. Two queries.
    """
    all_channels = list(channels)
    settings = access.workspace.memory_settings
    unread = {
        row["channel"]: (row["new"], row["latest"])
        for row in Message.objects.visible_to(access.reader)
        .filter(channel__in=all_channels)
        .waiting()
        .until(now_us)
        .values("channel")
        .order_by()
        .annotate(new=Count("pk"), latest=Max("micros"))
    }
    read: dict[int, dict[str, int]] = {}
    segments = (
        Segment.objects.visible_to(access.reader).filter(channel__in=all_channels).of_channel()
    )
    for row in segments.values("channel", "outcome").order_by().annotate(n=Sum("message_count")):
        read.setdefault(row["channel"], {})[row["outcome"]] = row["n"]
    shares = {}
    for channel in all_channels:
        new, latest = unread.get(channel.pk, (0, None))
        by_outcome = read.get(channel.pk, {})
        closed = by_outcome.get(Segment.Outcome.WAITING, 0)
        share = MessageCounts(
            remembered=by_outcome.get(Segment.Outcome.REMEMBERED, 0),
            waiting=new + closed,
            skipped=by_outcome.get(Segment.Outcome.NOTHING, 0)
            + by_outcome.get(Segment.Outcome.SKIPPED, 0),
            cancelled=by_outcome.get(Segment.Outcome.CANCELLED, 0),
        )
        decision = should_update_short_term_memory(
            latest, new, now_us, settings, has_memory=channel.pk in remembering
        )
        shares[channel.pk] = (share, build_waiting(decision, settings))
    return shares
