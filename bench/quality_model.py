"""Count the usable parts of a model's replies in `make quality MODEL=1`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from memories.rules.generate.reply import parse_reply
from memories.rules.generate.reply_operations import parse_operations
from memories.rules.generate.reply_statements import says_nothing, strip_thinking
from memories.rules.summariser import (
    OFFLINE,
    PromptForm,
    Reply,
    Request,
    RequestStrategy,
    Summariser,
    Usage,
)


@dataclass(frozen=True)
class Figures:
    """Counts and shares. ``lines`` are new lines by the model. ``quotes`` is a share of the lines of
    short-term memories, and ``dropped`` of all operations."""

    lines: int
    verified: float
    quotes: float
    segments: int
    nothing: float
    operations: int
    dropped: float
    prompt_tokens: int
    completion_tokens: int
    calls: int
    seconds: float

    def __str__(self) -> str:
        return "\n".join(
            [
                f"lines with a verified source  {self.verified:6.1%} of {self.lines}",
                f"quotes                        {self.quotes:6.1%} of the lines of messages",
                f"segments answered NOTHING     {self.nothing:6.1%} of {self.segments}",
                f"operations dropped            {self.dropped:6.1%} of {self.operations}",
                f"tokens                        {self.prompt_tokens} in, {self.completion_tokens} out",
                f"seconds                       {self.seconds:.1f} for {self.calls} calls",
            ]
        )


@dataclass
class Recorder:
    """A summariser that stores the replies of another one."""

    inner: Summariser
    replies: list[tuple[Request, Reply]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def endpoint(self) -> str:
        return self.inner.endpoint

    @property
    def endpoint_name(self) -> str:
        return self.inner.endpoint_name

    def prompt_version(self, request: Request) -> str:
        return self.inner.prompt_version(request)

    def upper_bound(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Usage:
        return self.inner.upper_bound(request, strategy)

    def summarise(
        self, request: Request, strategy: RequestStrategy = RequestStrategy.WHOLE
    ) -> Reply:
        reply = self.inner.summarise(request, strategy)
        self.replies.append((request, reply))
        return reply

    def figures(self) -> Figures:
        """Return the figures of the stored memories and all replies."""
        verified = [bool(line.sources.all()) and not line.unverified for line in _written()]
        readings = [(r, reply, parse_reply(reply, r)) for r, reply in self._last()]
        short_lines = [line for r, _, reading in readings if r.messages for line in reading.lines]
        segments = {_key(r) for r, _ in self.replies if r.messages}
        empty = {
            _key(r)
            for r, reply in self.replies
            if r.messages and says_nothing(strip_thinking(reply.text))
        }
        changes = [(reply, reading) for r, reply, reading in readings if _is_of_changes(r, reply)]
        operations = sum(len(parse_operations(strip_thinking(reply.text))) for reply, _ in changes)
        dropped = sum(len(reading.dropped) for _, reading in changes)
        replies = [reply for _, reply in self.replies]
        return Figures(
            lines=len(verified),
            verified=_share(sum(verified), len(verified)),
            quotes=_share(sum(line.is_quote for line in short_lines), len(short_lines)),
            segments=len(segments),
            nothing=_share(len(empty), len(segments)),
            operations=operations,
            dropped=_share(dropped, operations),
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            completion_tokens=sum(reply.completion_tokens for reply in replies),
            calls=sum(reply.calls for reply in replies),
            seconds=sum(reply.seconds for reply in replies),
        )

    def _last(self) -> Iterator[tuple[Request, Reply]]:
        """Yield the last reply of each job, because a bad reply is requested again."""
        yield from {_key(request): (request, reply) for request, reply in self.replies}.values()


def _key(request: Request) -> str:
    return repr(replace(request, form=PromptForm.FULL, thinking_tokens=0))


def _is_of_changes(request: Request, reply: Reply) -> bool:
    return replace(request, form=PromptForm(reply.form)).uses_operations


def _written() -> Any:
    """Return the lines by a model, in the version that added them."""
    from django.db.models import F

    from memories.models import Line

    lines = Line.objects.filter(origin="model", since=F("version__number"))
    by_model = lines.filter(version__job__isnull=False)
    return by_model.exclude(version__job__model=OFFLINE).prefetch_related("sources")


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0
