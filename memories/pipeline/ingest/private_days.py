"""Messages from days when a public channel was private: these stay with its members."""

from bisect import bisect_right
from collections.abc import Sequence

from django.db.models import Q

from memories.models import Channel, Message
from memories.rules.ingest.timestamps import to_micros

TO_PRIVATE = "channel_convert_to_private"  # subtypes of notices
TO_PUBLIC = "channel_convert_to_public"


def mark_private_days(channel: Channel, new: Sequence[Message], filled: Sequence[Message]) -> None:
    """Restrict messages to the members if the next notice says that the channel turned public.

    These are new rows, filled placeholders, and stored rows for which a notice comes only now.
    A channel that the hub never read while it was private is public as a whole.
    """
    rows = [*new, *filled]
    if not (rows and channel.is_public and channel.messages.from_private_days().exists()):
        return
    stored = channel.messages.filter(subtype__in=(TO_PRIVATE, TO_PUBLIC))
    conversions = dict(stored.values_list("micros", "subtype"))
    conversions |= {
        row.micros: row.subtype for row in rows if row.subtype in (TO_PRIVATE, TO_PUBLIC)
    }
    times = sorted(conversions)
    private = []
    for row in rows:
        following = times[bisect_right(times, row.micros) :]
        if following and conversions[following[0]] == TO_PUBLIC:
            row.was_private = True
            private.append(row.pk)
    marked = Q(pk__in=[pk for pk in private if pk])
    for days in _days_with_new_notice(channel, conversions, {row.micros for row in rows}):
        marked |= Q(micros__range=days)
    if marked != Q(pk__in=[]):
        channel.messages.filter(marked, was_private=False).update(was_private=True)


def _days_with_new_notice(
    channel: Channel, conversions: dict[int, str], new: set[int]
) -> list[tuple[int, int]]:
    """Return the first and last microsecond of private days that began or ended with a new notice.

    Of days without a notice of their begin, the stored messages from before the channel's
    ``private_since`` are public. After a notice of public days the begin is unknown.
    """
    since = to_micros(channel.private_since) if channel.private_since else 0
    days = []
    before = 0
    for at in sorted(conversions):
        if conversions[at] == TO_PUBLIC and new & {before, at}:
            if conversions.get(before) == TO_PRIVATE:
                days.append((before, at - 1))
            elif before < since < at:
                days.append((since, at - 1))
            elif not before:
                days.append((0, at - 1))
        before = at
    return days
