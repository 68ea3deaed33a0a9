"""One request, asked whole, split or in search of what is refused: as many calls as that takes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memories.rules.generate import prompts
from memories.rules.generate.faults import REFUSALS, Fault
from memories.rules.generate.reply import format_with_refs, parse_reply
from memories.rules.generate.splitting import (
    MAX_CALLS,
    MAX_HALVINGS,
    build_combination,
    combination_bound,
    estimate_prompt_tokens,
    restore_refs,
    split_request,
)
from memories.rules.generate.summariser import (
    NOTHING,
    ParsedReply,
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)

TOO_LONG = "context_too_long"


class _NoGoodError(Exception):
    """A part's reply that is no good is the reply to the whole."""

    def __init__(self, reply: Reply, fault: str) -> None:
        # Read beside the whole request it might pass for good: its fault goes with it.
        self.reply = replace(reply, finish_reason=fault) if reply.finish_reason == "stop" else reply


@dataclass
class RequestRunner:
    """The calls for one request. ``ask`` makes one of them; ``limit``: estimated prompt tokens
    beyond which a request is halved without being asked."""

    request: Request
    ask: Callable[[Request], Reply]
    model: str
    limit: int

    def __post_init__(self) -> None:
        self._replies: list[Reply] = []
        self._left_out: list[int] = []
        self._calls = 0  # with those that were turned down
        self._refusal: _NoGoodError | SummariserError | None = None

    def reply(self, way: RequestStrategy) -> Reply:
        """Raises SummariserError with what was spent before it."""
        try:
            return self._total(self._reply(way))
        except _NoGoodError as error:
            return self._total(error.reply)
        except SummariserError as error:
            error.spent = self._usage() + error.spent
            raise

    def _reply(self, way: RequestStrategy) -> Reply:
        parts = (
            split_request(self.request)
            if way is not RequestStrategy.WHOLE or self._is_long(self.request)
            else ()
        )
        if way is RequestStrategy.ISOLATE:
            found = [r for part in parts or (self.request,) for r in self._without_refused(part)]
        elif parts:
            halvings = MAX_HALVINGS - 1 if way is RequestStrategy.SPLIT else 0
            found = [reading for part in parts for reading in self._readings(part, halvings)]
        else:
            return self._one(self.request)
        return self._combined(found)

    # -- parts

    def _readings(self, request: Request, halvings: int) -> list[ParsedReply]:
        """Of the request, or of its parts where it is too long. ``halvings``: how often the
        endpoint's word for that is taken."""
        if request.is_empty:
            return [_as_it_was(request)]
        parts = split_request(request) if self._is_long(request) else ()
        if not parts:
            try:
                return [self._read(request)]
            except SummariserError as error:
                # The endpoint takes less than we thought.
                if error.code != TOO_LONG or not halvings or not (parts := split_request(request)):
                    raise
            halvings -= 1
        return [reading for part in parts for reading in self._readings(part, halvings)]

    def _without_refused(self, request: Request) -> list[ParsedReply]:
        """Of the request, or of its parts where it is refused, down to what has none: that is left
        out when it is refused twice."""
        if request.is_empty:
            return [_as_it_was(request)]
        parts = split_request(request)
        if not parts or not self._is_long(request):
            for _ in range(1 if parts else 2):
                if reading := self._unless_refused(request, can_be_cut=bool(parts)):
                    return [reading]
        if parts:
            return [reading for part in parts for reading in self._without_refused(part)]
        self._left_out += [message.ref for message in request.messages]
        self._left_out += [line.ref for added in request.additions for line in added.lines]
        return [_as_it_was(request)]

    def _unless_refused(self, request: Request, *, can_be_cut: bool) -> ParsedReply | None:
        if self._calls >= MAX_CALLS - 1:  # one is kept for the combination
            raise self._refusal or SummariserError(
                TOO_LONG, "Too long to look for what is refused."
            )
        try:
            return self._read(request)
        except _NoGoodError as error:
            if error.reply.finish_reason not in REFUSALS:
                raise
            self._refusal = error
        except SummariserError as error:
            if error.code not in REFUSALS and not (error.code == TOO_LONG and can_be_cut):
                raise
            self._refusal = error
        return None

    # -- their combination

    def _combined(self, readings: Sequence[ParsedReply]) -> Reply:
        """One request that merges the lines of all parts, unless only one of them has any."""
        if self.request.uses_operations:  # each is about lines by their numbers in the whole
            return self._made("\n".join(reply.text for reply in self._replies))
        spoken = [reading for reading in readings if reading.lines]
        if len(spoken) < 2 or self.request.only_adds:  # these hold the existing lines too
            return self._made(
                format_with_refs(line for reading in spoken for line in reading.lines)
            )
        whole = build_combination(self.request, readings)
        if estimate_prompt_tokens(whole) > combination_bound(self.request, len(readings)):
            raise _NoGoodError(self._made(""), Fault.TOO_LONG)  # not what was reserved for
        reply = self._one(whole)  # never split again: combining does not get shorter by it
        reading = parse_reply(reply, whole)
        if reading.fault:
            raise _NoGoodError(reply, reading.fault)
        return (
            reply
            if reading.nothing
            else self._made(format_with_refs(restore_refs(reading, readings)))
        )

    def _made(self, text: str) -> Reply:
        model = self._replies[-1].model if self._replies else self.model
        return Reply(
            text or NOTHING, "stop", model, prompts.prompt_version(self.request)
        )  # with refs

    # -- calls

    def _read(self, request: Request) -> ParsedReply:
        reply = self._one(request)
        reading = parse_reply(reply, request)
        if reading.fault:
            raise _NoGoodError(reply, reading.fault)
        return reading

    def _one(self, request: Request) -> Reply:
        self._calls += 1
        self._replies.append(self.ask(request))
        return self._replies[-1]

    def _is_long(self, request: Request) -> bool:
        return estimate_prompt_tokens(request) > self.limit

    def _usage(self) -> Usage:
        return sum(
            (Usage(r.prompt_tokens, r.completion_tokens, r.calls) for r in self._replies), Usage()
        )

    def _total(self, reply: Reply) -> Reply:
        usage = self._usage()
        return replace(
            reply,
            prompt_version=prompts.prompt_version(self.request),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            calls=usage.calls,
            seconds=math.fsum(reply.seconds for reply in self._replies),
            left_out=tuple(dict.fromkeys(self._left_out)),  # a long message may be cut
        )


def _as_it_was(request: Request) -> ParsedReply:
    """Lines that nothing is added to need no call (S3)."""
    return ParsedReply([ReplyLine(line.text, (line.ref,)) for line in request.existing])
