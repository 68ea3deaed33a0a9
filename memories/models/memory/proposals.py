"""Proposals: corrections of single lines that wait for the approval of an editor."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memories.models.access.api_keys import ApiKey
from memories.models.access.readers import AudienceQuerySet
from memories.models.access.users import User
from memories.models.ingest.messages import Message
from memories.models.memory.lines import Audience, Line
from memories.models.memory.memories import Memory
from memories.models.memory.versions import MemoryVersion
from memories.models.notes.note_versions import kind_words
from memories.models.notes.notes import Note
from memories.rules.memory.lines import strip_bullet
from memories.rules.redaction.shingles import QuoteMatcher

MAX_LENGTH = 2_000  # characters of a proposed line, its reason and its source


class ProposalQuerySet(AudienceQuerySet["Proposal"]):
    def open(self) -> "ProposalQuerySet":
        return self.filter(state=Proposal.State.OPEN)

    def corrections(self) -> "ProposalQuerySet":
        return self.filter(note_type="")

    def notes(self) -> "ProposalQuerySet":
        return self.exclude(note_type="")

    def with_memory(self) -> "ProposalQuerySet":
        """Select the related rows that pages show and `approve` reads."""
        return self.select_related(
            "memory__channel", "memory__workspace", "memory__current", "author", "api_key"
        )

    @transaction.atomic
    def propose(
        self,
        version: MemoryVersion,
        line: Line | None,
        text: str,
        *,
        reason: str = "",
        source_text: str = "",
        note_type: str = "",
        sources: Iterable[Message | int] = (),
        author: User | None = None,
        api_key: ApiKey | None = None,
    ) -> "Proposal":
        """Save the proposal to replace a line of the current version, or to add one without it.

        With a ``note_type`` it proposes a note for the readers of the memory. An equal open proposal
        of the same author is returned instead, for example after a double click.

        ``sources`` are messages that all readers of the memory may read. Raise ValueError if the
        text is empty, too long, or that of the line.
        """
        words = strip_bullet(text)
        line_words = strip_bullet(line.text) if line else ""
        if not words or words == line_words:
            raise ValueError("The text is empty, or that of the line.")
        if max(map(len, (words, reason, source_text))) > MAX_LENGTH:
            raise ValueError(f"A text has more than {MAX_LENGTH} characters.")
        values: dict[str, Any] = {
            "memory": version.memory,
            "version": version,
            "line_text": line_words,
            "text": words,
            "reason": reason.strip(),
            "source_text": source_text.strip(),
            "note_type": note_type,
            "author": author,
            "api_key": api_key,
        }
        version.memory.lock()
        proposal, is_new = self.open().get_or_create(**values)
        if not is_new:
            return proposal
        proposal.sources.set(sources)
        proposal.record("proposal_add", author)
        return proposal

    def delete_quoting(self, matcher: QuoteMatcher, messages: Collection[int]) -> None:
        """Delete the proposals that contain redacted words, or rest on one of these messages."""
        texts = self.values_list("pk", "line_text", "text", "reason", "source_text").iterator(200)
        quoting = {pk for pk, *words in texts if any(map(matcher.spans, words))}
        sources = Proposal.sources.through.objects.filter(proposal__in=self)
        pairs = sources.values_list("proposal", "message")
        quoting.update(pk for pk, message in pairs if message in messages)
        self.filter(pk__in=quoting).delete()


class Proposal(models.Model):
    """A new wording of one line by a person or an API key, or a note from a conversation.

    ``version`` is the one that the author saw. The readers of that version may read the proposal.
    ``line_text`` are the words of its line, "" to add a line. Every later version with these words
    has the line.
    """

    class State(models.TextChoices):
        OPEN = "open", _("waiting for approval")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="proposals")
    version = models.ForeignKey(MemoryVersion, on_delete=models.CASCADE, related_name="+")
    line_text = models.TextField(_("line"), blank=True)
    text = models.TextField(_("proposed text"))
    reason = models.TextField(_("reason"), blank=True)
    source_text = models.TextField(_("source"), blank=True)
    # The type of a proposed note, "" for a line.
    note_type = models.CharField(_("type of note"), max_length=20, blank=True)
    sources = models.ManyToManyField(Message, related_name="proposals")
    author = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="proposals", null=True, blank=True
    )
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.SET_NULL, related_name="proposals", null=True, blank=True
    )
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.OPEN)
    decided_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(_("proposed"), default=timezone.now)

    objects = ProposalQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(name="proposal_says_something", condition=~Q(text="")),
        ]
        indexes = [
            # For ProposalQuerySet.open, which returns few of many rows.
            models.Index(fields=["memory"], name="proposal_open", condition=Q(state="open")),
        ]
        verbose_name = _("proposal")
        verbose_name_plural = _("proposals")

    def __str__(self) -> str:
        return f"proposal {self.pk}"

    @property
    def note_type_words(self) -> str:
        return kind_words(self.note_type)

    def find_line(self) -> Line | None:
        """Return the line of the current version that this proposal is about, if it has one."""
        lines = Line.objects.filter(version__current_of=self.memory, redacted=False)
        return next((line for line in lines if strip_bullet(line.text) == self.line_text), None)

    @transaction.atomic
    def approve(
        self, *, by: User | None, based_on: int, revision: int | None = None, text: str = ""
    ) -> MemoryVersion | None:
        """Add a version with the proposed line, or with ``text`` in its place.

        The line is the author's from now on, or that of the approving account for an API key. It is
        added as a new one if the memory does not have the old one any more. The readers of the
        proposal may read the version. Return None if the proposal was decided already. Raise the
        errors of `Memory.revise`.
        """
        if not self._decide(self.State.APPROVED, by):
            return None
        base = self.memory.get_seen_version(based_on, revision)
        words, line = strip_bullet(text) or self.text, self.find_line()
        change = line.correct if line is not None else self.memory.revise
        text = words if line is not None else f"{base.content if base else ''}\n- {words}"
        version = change(
            text, by=by, based_on=based_on, revision=revision, audience=self.version.audience
        )
        new_line = next((x for x in version.lines.all() if strip_bullet(x.text) == words), None)
        if new_line is None:
            raise ValueError("The memory cannot have a line with this text.")
        if sources := list(self.sources.all()):
            new_line.sources.set(sources)
        if self.author is not None:
            Line.objects.filter(pk=new_line.pk).update(author=self.author)
        self.record("proposal_accept", by, version=version.number)
        self.memory.refresh_from_db()
        return version

    @transaction.atomic
    def approve_as_note(self, *, by: User | None, text: str) -> Note | None:
        """Write the proposed note, or ``text`` in its place, for the readers of the proposal.

        The note keeps the first source that all of them may read.

        Return None if the proposal was decided already. Raise the errors of `NoteQuerySet.write`.
        """
        if not self._decide(self.State.APPROVED, by):
            return None
        note = Note.objects.write(
            self.memory.workspace,
            text.strip() or self.text,
            kind=self.note_type,
            channel=self.memory.channel,
            author=by,
            source=self._find_note_source(),
            was_private=self._is_for_members,
        )
        self.record("proposal_accept", by, note=note.pk)
        return note

    @transaction.atomic
    def reject(self, *, by: User | None) -> bool:
        """Keep the memory as it is. Return False if the proposal was decided already."""
        is_rejected = self._decide(self.State.REJECTED, by)
        if is_rejected:
            self.record("proposal_reject", by)
        return is_rejected

    @property
    def _is_for_members(self) -> bool:
        return self.version.audience != Audience.SCOPE

    def _find_note_source(self) -> Message | None:
        """Return the first message of the channel that all readers of the proposal may read."""
        messages = self.sources.rememberable().filter(channel=self.memory.channel)
        if not self._is_for_members:
            messages = messages.without_private_days()
        return messages.in_order().first()

    def _decide(self, state: "Proposal.State", by: User | None) -> bool:
        now = timezone.now()
        is_open = Proposal.objects.open().filter(pk=self.pk)
        is_decided = bool(is_open.update(state=state, decided_by=by, decided_at=now))
        if is_decided:
            self.state, self.decided_by, self.decided_at = state, by, now
        return is_decided

    def record(self, action: str, by: User | None, **details: Any) -> None:
        self.memory.record(action, by, proposal=self.pk, **details)
