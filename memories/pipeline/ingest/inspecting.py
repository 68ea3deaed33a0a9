"""What lies in an export, counted before anything of it is stored.

Names are told of public channels alone: of the others every operator may know how many there are.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from memories.rules.ingest.message_text import as_dict
from memories.slack.export import Export

MOST_NAMED = 50  # broken files; of more than that the number tells enough
HIDDEN = "…"  # in place of a folder that may be private


@dataclass
class ConversationCount:
    """Conversations of one kind and the messages in them."""

    conversations: int = 0
    messages: int = 0


@dataclass
class ExportSummary:
    """``objects`` is all that will be read; ``linked`` messages point to files that no export
    holds; ``first`` and ``last`` are days, "" where no file is named after one."""

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

    @property
    def public_names(self) -> set[str]:
        """Folders that anybody may know of."""
        return {channel["folder"] for channel in self.public}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def inspect(export: Export, tell: Callable[[int], None]) -> ExportSummary:
    """Read all of it once; ``tell`` hears how much is read and may raise to stop."""
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
            tell(summary.objects + messages)
        summary.objects += messages
        days.update(day.parts[-1][:10] for day in folder.days)
        if folder.is_public:
            summary.public.append(
                {"id": folder.slack_id, "folder": folder.name, "messages": messages}
            )
            continue
        kind = summary.direct if folder.is_direct else summary.unlisted
        inside = summary.private if folder.kind == "private" else kind
        inside.conversations += 1
        inside.messages += messages
    summary.first, summary.last = min(days, default=""), max(days, default="")
    summary.broken = broken_files(export, summary.public_names)
    summary.broken_count = len(set(export.broken))
    return summary


def broken_files(export: Export, public: set[str]) -> list[tuple[str, str, int]]:
    """File, reason, line; the folder of one that may be private is left out."""
    files = []
    for name, reason in sorted(set(export.broken))[:MOST_NAMED]:
        folder, slash, day = name.rpartition("/")
        shown = name if not slash or folder in public else f"{HIDDEN}/{day}"
        files.append((shown, reason, export.broken_at.get(name, 0)))
    return files
