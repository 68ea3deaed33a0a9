"""Count the content of an export before any of it is stored.

The result names public channels only. Of the other conversations it has the number.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memories.rules.json_values import as_dict
from memories.slack.export import Export

MAX_BROKEN_FILES = 50  # in the list; a summary counts them all
HIDDEN = "…"  # in place of a folder that may be private


@dataclass
class ConversationCount:
    """Conversations of one kind and the messages in them."""

    conversations: int = 0
    messages: int = 0


@dataclass
class ExportSummary:
    """Numbers of objects in an export. ``objects`` is the number that an import reads.

    ``linked`` messages have files, which no export contains. ``first`` and ``last`` are days, ""
    without day files.
    """

    people: int = 0
    with_email: int = 0
    listed: int = 0
    public: list[dict[str, Any]] = field(default_factory=list)  # id, folder, messages
    private: ConversationCount = field(default_factory=ConversationCount)
    direct: ConversationCount = field(default_factory=ConversationCount)
    unlisted: ConversationCount = field(default_factory=ConversationCount)
    linked: int = 0
    first: str = ""
    last: str = ""
    broken: list[tuple[str, str, int]] = field(default_factory=list)  # file, reason, line or 0
    broken_count: int = 0
    objects: int = 0


def inspect(export: Export, progress: Callable[[int], None]) -> ExportSummary:
    """Read the whole export; call ``progress``, which may raise, with the number of objects."""
    summary = ExportSummary()
    for raw in export.people():
        summary.people += 1
        summary.with_email += bool(as_dict(as_dict(raw).get("profile")).get("email"))
    for _ in export.channels():
        summary.listed += 1
    summary.objects = summary.people + summary.listed
    days: set[str] = set()
    for folder in export.folders():
        messages = 0
        for raw in export.messages(folder):
            messages += 1
            summary.linked += bool(as_dict(raw).get("files"))
            progress(summary.objects + messages)
        summary.objects += messages
        days.update(day.parts[-1][:10] for day in folder.days)
        if folder.is_public:
            summary.public.append(
                {"id": folder.slack_id, "folder": folder.name, "messages": messages}
            )
            continue
        if folder.is_direct:
            count = summary.direct
        else:
            count = summary.private if folder.kind == "private" else summary.unlisted
        count.conversations += 1
        count.messages += messages
    summary.first, summary.last = min(days, default=""), max(days, default="")
    summary.broken = broken_files(export, {channel["folder"] for channel in summary.public})
    summary.broken_count = len(set(export.broken))
    return summary


def broken_files(export: Export, public: set[str]) -> list[tuple[str, str, int]]:
    """Return (file, reason, line) of broken files, without the names of folders not in ``public``."""
    files = []
    for name, reason in sorted(set(export.broken))[:MAX_BROKEN_FILES]:
        folder, slash, day = name.rpartition("/")
        shown = name if not slash or folder in public else f"{HIDDEN}/{day}"
        files.append((shown, reason, export.broken_at.get(name, 0)))
    return files
