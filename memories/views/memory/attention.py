"""What a reader should look at first: dropped lines, open questions, proposals and quarantine."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memories.models import Line, Memory, MemoryVersion, Proposal, Seen
from memories.pipeline.memory.review import find_proposed_jobs
from memories.rules.ingest.timestamps import from_micros, to_micros
from memories.rules.memory.catch_up import UNANSWERED_AFTER, Since, loses_many_lines
from memories.rules.memory.compare import ChangeKind
from memories.rules.memory.kinds import Kind
from memories.rules.memory.lines import strip_bullet
from memories.rules.salience import has_question
from memories.views.access.access import WorkspaceAccess, format_count
from memories.views.memory.news import News, NewsEntry, with_channels
from memories.views.paths import card_path

MEMORIES_WITH_QUESTIONS = 50  # of which memories the lines are searched for open questions


@dataclass(frozen=True)
class AttentionItem:
    """Something that a person should look at.

    ``kind`` is restored, lost, question, proposal, correction or quarantine. ``n`` is its number of lines, if
    they count.
    """

    kind: str
    href: str
    memory: Memory | None = None
    n: int = 0

    @property
    def words(self) -> str:
        if self.kind == "proposal":
            return _("a proposed text needs your approval")
        words = {
            "restored": ngettext(
                "%(n)s line by a person was dropped and restored",
                "%(n)s lines by people were dropped and restored",
                self.n,
            ),
            "lost": ngettext(
                "more than 30 percent was removed: %(n)s line",
                "more than 30 percent was removed: %(n)s lines",
                self.n,
            ),
            "question": ngettext(
                "%(n)s question has had no answer for more than 7 days",
                "%(n)s questions have had no answer for more than 7 days",
                self.n,
            ),
            "correction": ngettext(
                "%(n)s correction needs approval", "%(n)s corrections need approval", self.n
            ),
            "quarantine": ngettext(
                "%(n)s line is in quarantine", "%(n)s lines are in quarantine", self.n
            ),
        }
        is_counted_in_part = self.kind == "quarantine"
        return words[self.kind] % {"n": format_count(self.n) if is_counted_in_part else self.n}


def find_attention_items(
    news: News, access: WorkspaceAccess, since: Since, now: datetime
) -> list[AttentionItem]:
    """Return what a reader should look at first. Five queries if it is nothing."""
    items = _find_restored(news.all_entries, access, since)
    for entry in news.all_entries:
        if entry.base is not None and loses_many_lines(entry.base.content, entry.rows):
            href = reverse("versions-compare", args=[entry.base.pk, entry.version.pk])
            removed_count = sum(row.kind is ChangeKind.REMOVED for row in entry.rows)
            items.append(AttentionItem("lost", href, entry.version.memory, removed_count))
    items += _find_unanswered(access, now)
    items += _find_proposals(access)
    items += _find_corrections(access)
    if access.can_edit and access.quarantined_count:
        href = reverse("quarantine-index", args=[access.workspace.slug])
        items.append(AttentionItem("quarantine", href, n=access.quarantined_count))
    return items


def _find_restored(
    entries: Sequence[NewsEntry], access: WorkspaceAccess, since: Since
) -> list[AttentionItem]:
    """Return new versions in which lines of people were dropped and restored.

    There is one item a memory, for its newest version. If the reader saw no version, only the
    current one counts.
    """
    memories = {entry.memory.pk: entry.version.memory for entry in entries if not entry.is_folded}
    mark = Seen.objects.filter(memory=OuterRef("memory"), user=access.reader.user_id)
    versions = (
        MemoryVersion.objects.visible_to(access.reader)
        .filter(memory__in=list(memories))
        .exclude(put_back=[])
        .annotate(seen=Coalesce(Subquery(mark.values("number")), Value(0)))
    )
    if since.us is None:
        is_new = Q(seen__gt=0, number__gt=F("seen")) | Q(seen=0, current_of__isnull=False)
    else:
        is_new = Q(created_at__gt=from_micros(since.us))
    rows = versions.filter(is_new).order_by("number").values_list("memory", "pk", "put_back")
    newest = {
        memory: AttentionItem(
            "restored", reverse("versions-detail", args=[pk]), memories[memory], len(restored)
        )
        for memory, pk, restored in rows
    }
    return list(newest.values())


def _find_unanswered(access: WorkspaceAccess, now: datetime) -> list[AttentionItem]:
    """Return the current texts with questions whose messages are older than 7 days."""
    newest = access.unmuted_memories.order_by("-current").values("current")[
        :MEMORIES_WITH_QUESTIONS
    ]
    lines = (
        Line.objects.in_force()
        .filter(version__in=newest, version__memory__current=F("version"))
        .filter(at_us__lte=to_micros(now - UNANSWERED_AFTER))
        .order_by("version", "position")
    )
    counts = Counter(
        memory
        for memory, kind, text in lines.values_list("version__memory", "kind", "text")
        if kind == Kind.QUESTION or has_question(strip_bullet(text))
    )
    if not counts:
        return []
    memories = Memory.objects.filter(pk__in=counts).order_by("-current")
    return [
        AttentionItem("question", card_path(memory), memory, counts[memory.pk])
        for memory in with_channels(memories, access)
    ]


def _find_proposals(access: WorkspaceAccess) -> list[AttentionItem]:
    """Return the proposals for current texts."""
    jobs = find_proposed_jobs(access.workspace, access.reader)
    return [
        AttentionItem("proposal", reverse("proposals-detail", args=[job.memory_id]), job.memory)
        for job in jobs
        if job.memory.current_id  # the page of all proposals has the first text of a memory
    ]


def _find_corrections(access: WorkspaceAccess) -> list[AttentionItem]:
    """Return the memories with open corrections of lines."""
    proposals = Proposal.objects.open().corrections().filter(memory__workspace=access.workspace)
    if not proposals.exists():  # the usual case, and `visible_to` is a slow query
        return []
    rows = proposals.visible_to(access.reader).order_by("memory_id").values_list("memory")
    counts = dict(rows.annotate(n=Count("pk")))
    memories = with_channels(Memory.objects.filter(pk__in=counts), access)
    return [
        AttentionItem(
            "correction", reverse("proposals-detail", args=[memory.pk]), memory, counts[memory.pk]
        )
        for memory in memories
    ]
