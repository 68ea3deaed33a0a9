"""Generations: one row per wanted model output, the truth about jobs (docs/rules.md, Generations).

django-q2 only carries ids. Claiming, failing and finishing are conditional updates of this row,
guarded by its fence, so a worker that comes back from the dead writes nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.db.models.expressions import Combinable
from django.utils.translation import gettext_lazy as _

from memories.models.channels import Channel
from memories.models.memories import Memory
from memories.models.readers import Reader
from memories.models.segments import Segment
from memories.models.versions import MemoryVersion
from memories.models.workspaces import Workspace
from memories.rules.memory import MemoryType
from memories.rules.summary import Reply, SummariserError

MOST_ATTEMPTS = 5
BACK_OFF = timedelta(seconds=30)  # doubles with each attempt


class GenerationQuerySet(models.QuerySet["Generation"]):
    def visible_to(self, reader: Reader) -> "GenerationQuerySet":
        return self.filter(memory__in=Memory.objects.visible_to(reader).values("pk"))

    def of_workspace(self, workspace: Workspace) -> "GenerationQuerySet":
        return self.filter(memory__workspace=workspace)

    def of_channel(self, channel: Channel) -> "GenerationQuerySet":
        return self.filter(memory__channel=channel)

    def with_memory(self) -> "GenerationQuerySet":
        """With all that asking and closing read of what the row belongs to."""
        return self.select_related(
            "memory__channel", "memory__current", "memory__workspace", "segment", "base"
        )

    def unfinished(self) -> "GenerationQuerySet":
        return self.filter(state__in=Generation.UNFINISHED)

    def claimable(self, now: datetime) -> "GenerationQuerySet":
        """Waiting and not held back, or claimed by a worker whose lease ran out."""
        return self.filter(
            Q(state=Generation.State.WAITING) & (Q(not_before=None) | Q(not_before__lte=now))
            | Q(state=Generation.State.CLAIMED, lease_until__lt=now)
        ).order_by("pk")

    def unsettled(self, now: datetime) -> "GenerationQuerySet":
        """Will go on by itself soon: merges wait for it. What is held back is not waited for."""
        return self.unfinished().exclude(state=Generation.State.WAITING, not_before__gt=now)


class Generation(models.Model):
    """One wanted output. Its input key is unique: the same inputs are never paid for twice."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        CLAIMED = "claimed", _("running")
        REPLIED = "replied", _("answered, not yet saved")
        DONE = "done", _("done")
        SUPERSEDED = "superseded", _("made again from a newer text")
        DEAD = "dead", _("given up")

    UNFINISHED = (State.WAITING, State.CLAIMED, State.REPLIED)

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="generations")
    segment = models.ForeignKey(
        Segment, on_delete=models.CASCADE, related_name="generations", null=True, blank=True
    )
    base = models.ForeignKey(
        MemoryVersion, on_delete=models.SET_NULL, related_name="+", null=True, blank=True
    )
    inputs = models.ManyToManyField(MemoryVersion, through="GenerationInput", related_name="merges")
    provisional = models.BooleanField(_("provisional"), default=False)
    as_of_us = models.BigIntegerField()
    input_key = models.CharField(max_length=64, unique=True)
    trigger = models.JSONField(_("why"), default=dict, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State, default=State.WAITING)
    fence = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(_("not before"), null=True, blank=True)
    reply = models.JSONField(null=True, blank=True)
    # What each ref of the reply stands for, as keys of messages: refs count within one request.
    cites = models.JSONField(default=list, blank=True)
    fault = models.CharField(_("fault"), max_length=40, blank=True)
    fault_text = models.TextField(_("what happened"), blank=True)
    model = models.CharField(_("model"), max_length=100, blank=True)
    prompt_version = models.CharField(_("prompt"), max_length=60, blank=True)
    prompt_tokens = models.PositiveIntegerField(_("tokens in"), default=0)
    completion_tokens = models.PositiveIntegerField(_("tokens out"), default=0)
    calls = models.PositiveIntegerField(_("calls"), default=0)
    seconds = models.FloatField(_("seconds"), default=0)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    objects = GenerationQuerySet.as_manager()

    class Meta:
        indexes = [
            # GenerationQuerySet.claimable and unsettled.
            models.Index(
                fields=["memory", "state"],
                name="generation_unfinished",
                condition=Q(state__in=["waiting", "claimed", "replied"]),
            ),
        ]
        verbose_name = _("generation")
        verbose_name_plural = _("generations")

    def __str__(self) -> str:
        return f"generation {self.pk}"

    def claim(self, now: datetime, lease: timedelta) -> bool:
        """Take it, counting the attempt at once so that a kill counts. False: another has it."""
        won = (
            Generation.objects.claimable(now)
            .filter(pk=self.pk, fence=self.fence)
            .update(
                state=self.State.CLAIMED,
                fence=F("fence") + 1,
                attempts=F("attempts") + 1,
                lease_until=now + lease,
                not_before=None,
            )
        )
        if won:
            self.refresh_from_db()
        return bool(won)

    @property
    def has_used_its_attempts(self) -> bool:
        """Claimed once more than allowed: each earlier worker went away without a word."""
        return self.attempts > MOST_ATTEMPTS

    def _mine(self, *states: State) -> GenerationQuerySet:
        return Generation.objects.filter(pk=self.pk, fence=self.fence, state__in=states)

    def renew(self, now: datetime, lease: timedelta) -> bool:
        """Keep it for longer: its worker still waits for an answer. False when it was lost."""
        return bool(self._mine(self.State.CLAIMED).update(lease_until=now + lease))

    def save_reply(self, reply: Reply, cites: Sequence[Sequence[int]]) -> bool:
        """Keep what was paid for before anything is made of it. False when the lease was lost."""
        return bool(
            self._mine(self.State.CLAIMED).update(
                state=self.State.REPLIED,
                reply=reply.as_json(),
                cites=[list(keys) for keys in cites],
                model=reply.model,
                prompt_version=reply.prompt_version,
                prompt_tokens=F("prompt_tokens") + reply.prompt_tokens,
                completion_tokens=F("completion_tokens") + reply.completion_tokens,
                calls=F("calls") + reply.calls,
                seconds=F("seconds") + reply.seconds,
                lease_until=None,
                fault="",
                fault_text="",
            )
        )

    def fail(self, error: SummariserError, now: datetime) -> None:
        """Keep the reason; try again later unless it is permanent or the attempts are used up.

        A rate limit gives its attempt back.
        """
        if error.code == "rate_limited":
            wait = timedelta(seconds=error.retry_after or BACK_OFF.total_seconds())
            self._held_back(error, now + wait, F("attempts") - 1)
        elif error.permanent or self.attempts >= MOST_ATTEMPTS:
            self._mine(self.State.CLAIMED, self.State.REPLIED).update(
                state=self.State.DEAD,
                fault=error.code,
                fault_text=str(error),
                lease_until=None,
                finished_at=now,
            )
        else:
            self._held_back(error, now + BACK_OFF * 2 ** (self.attempts - 1), F("attempts"))
        self.refresh_from_db()

    def _held_back(self, error: SummariserError, until: datetime, attempts: Combinable) -> None:
        self._mine(self.State.CLAIMED, self.State.REPLIED).update(
            state=self.State.WAITING,
            attempts=attempts,
            not_before=until,
            fault=error.code,
            fault_text=str(error),
            lease_until=None,
            reply=None,
        )

    def close(self, state: State, now: datetime) -> bool:
        """Done or superseded, by whoever holds the fence. Call it inside the closing transaction."""
        closed = self._mine(self.State.CLAIMED, self.State.REPLIED).update(
            state=state, lease_until=None, finished_at=now
        )
        if closed and state == self.State.DONE and self.memory.memory_type == MemoryType.LONG_TERM:
            # What was rewritten since it was read stays owed.
            read = self.read.filter(revision=F("version__revision"))
            MemoryVersion.objects.filter(pk__in=read.values("version")).update(merged=True)
        return bool(closed)

    def retry(self) -> bool:
        """Offer a given-up generation again, from the start."""
        return self._offer_again(self.State.DEAD)

    def want_again(self) -> bool:
        """Offer a superseded one again: the very same is wanted once more."""
        return self._offer_again(self.State.SUPERSEDED)

    def _offer_again(self, state: State) -> bool:
        return bool(
            Generation.objects.filter(pk=self.pk, state=state).update(
                state=self.State.WAITING,
                attempts=0,
                not_before=None,
                reply=None,
                fence=F("fence") + 1,
                finished_at=None,
            )
        )

    def take_inputs(self, versions: Sequence[MemoryVersion]) -> None:
        GenerationInput.objects.bulk_create(
            GenerationInput(generation=self, version=version, revision=version.revision)
            for version in versions
        )

    @property
    def saved_reply(self) -> Reply | None:
        data: dict[str, Any] | None = self.reply
        return Reply.from_json(data) if data else None


class GenerationInput(models.Model):
    """A version that a merge reads, in the wording it had then."""

    generation = models.ForeignKey(Generation, on_delete=models.CASCADE, related_name="read")
    version = models.ForeignKey(MemoryVersion, on_delete=models.CASCADE, related_name="read_by")
    revision = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["generation", "version"], name="input_once"),
        ]

    def __str__(self) -> str:
        return f"{self.version_id} in {self.generation_id}"
