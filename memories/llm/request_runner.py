"""Run one request in as many calls as its strategy needs: whole, split, or isolating refused input."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memories.rules.generate import prompts
from memories.rules.generate.faults import REFUSALS, Fault
from memories.rules.generate.reply import format_with_refs, parse_reply, readable_text
from memories.rules.generate.reply_operations import join_operations
from memories.rules.generate.splitting import (
    MAX_CALLS,
    MAX_HALVINGS,
    build_combination,
    combination_bound,
    estimate_prompt_tokens,
    restore_refs,
    split_request,
)
from memories.rules.summariser import (
    NOTHING,
    ParsedReply,
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
    SummariserError,
    Usage,
)

CONTEXT_TOO_LONG = "context_too_long"


class _BadReplyError(Exception):
    """The bad reply to a part, which becomes the reply to the whole request."""

    def __init__(self, reply: Reply, fault: str) -> None:
        # The caller parses this as a reply to the whole request, which may hide the fault.
        self.reply = replace(reply, finish_reason=fault)


@dataclass
class RequestRunner:
    """The calls for one request. ``call`` makes one of them.

    ``limit``: the most estimated prompt tokens of a call. A longer request is split before it is sent.
    """

    request: Request
    call: Callable[[Request], Reply]
    model: str
    limit: int

    def __post_init__(self) -> None:
        self._replies: list[Reply] = []
        self._accepted: list[str] = []  # the texts of good replies to parts
        self._left_out: list[int] = []
        self._call_count = 0  # rejected calls included
        self._refusal: _BadReplyError | SummariserError | None = None

    def run(self, strategy: RequestStrategy) -> Reply:
        """Return the reply with the usage of all calls; raise SummariserError with that usage."""
        try:
            return self._with_usage(self._run(strategy))
        except _BadReplyError as error:
            return self._with_usage(error.reply)
        except SummariserError as error:
            error.spent = self._usage() + error.spent
            error.is_partly_paid = bool(self._replies)
            raise

    def _run(self, strategy: RequestStrategy) -> Reply:
        is_whole = strategy is RequestStrategy.WHOLE and not self._is_long(self.request)
        halves = () if is_whole else split_request(self.request)
        if strategy is RequestStrategy.ISOLATE:
            parts = [p for half in halves or (self.request,) for p in self._isolate(half)]
        elif halves:
            halvings = MAX_HALVINGS - 1 if strategy is RequestStrategy.SPLIT else 0
            parts = [p for half in halves for p in self._send_or_split(half, halvings)]
        else:
            return self._send(self.request)
        return self._combine(parts)

    def _send_or_split(self, request: Request, halvings: int) -> list[ParsedReply]:
        """Return the parsed reply to a request, or to each of its parts when it is too long.

        ``halvings``: how often the request may still be split after the endpoint finds it too long.
        """
        if request.is_empty:
            return [_parsed_existing(request)]
        halves = split_request(request) if self._is_long(request) else ()
        if not halves:
            try:
                return [self._send_and_parse(request)]
            except SummariserError as error:
                if (
                    error.code != CONTEXT_TOO_LONG
                    or not halvings
                    or not (halves := split_request(request))
                ):
                    raise
            halvings -= 1
        return [part for half in halves for part in self._send_or_split(half, halvings)]

    def _isolate(self, request: Request) -> list[ParsedReply]:
        """Return the parsed reply to a request, or to each of its parts when it is refused.

        A request that cannot be split is left out when it is refused twice.
        """
        if request.is_empty:
            return [_parsed_existing(request)]
        halves = split_request(request)
        if not halves or not self._is_long(request):
            for _ in range(1 if halves else 2):
                if part := self._send_unless_refused(request, can_split=bool(halves)):
                    return [part]
        if halves:
            return [part for half in halves for part in self._isolate(half)]
        self._left_out += [message.ref for message in request.messages]
        self._left_out += [line.ref for added in request.additions for line in added.lines]
        return [_parsed_existing(request)]

    def _send_unless_refused(self, request: Request, *, can_split: bool) -> ParsedReply | None:
        if self._call_count >= MAX_CALLS - 1:  # the last call is for the combination
            raise self._refusal or SummariserError(
                CONTEXT_TOO_LONG, "Too long to look for what is refused."
            )
        try:
            return self._send_and_parse(request)
        except _BadReplyError as error:
            if error.reply.finish_reason not in REFUSALS:
                raise
            self._refusal = error
        except SummariserError as error:
            if error.code not in REFUSALS and not (error.code == CONTEXT_TOO_LONG and can_split):
                raise
            self._refusal = error
        return None

    def _combine(self, parts: Sequence[ParsedReply]) -> Reply:
        """Combine the replies to the parts, if necessary by one more call.

        Changes of an existing text are joined without a call, because they concern single lines.
        """
        if self.request.changes_text:
            joined = self._build_reply(join_operations(self._accepted))
            return replace(joined, form=self.request.form)
        with_lines = [part for part in parts if part.lines]
        if len(with_lines) < 2:
            return self._build_reply(
                format_with_refs(line for part in with_lines for line in part.lines)
            )
        combination = build_combination(self.request, parts)
        if estimate_prompt_tokens(combination) > combination_bound(self.request, len(parts)):
            raise _BadReplyError(self._build_reply(""), Fault.TOO_LONG)  # above the reservation
        # Never split: a split would not make the combination shorter.
        reply = self._send(combination)
        combined = parse_reply(reply, combination)
        if combined.fault:
            raise _BadReplyError(reply, combined.fault)
        if combined.is_nothing:
            return reply
        return self._build_reply(format_with_refs(restore_refs(combined, parts)))

    def _build_reply(self, text: str) -> Reply:
        model = self._replies[-1].model if self._replies else self.model
        # A combined text has refs, so its form is FULL, the default of `Reply`.
        return Reply(text or NOTHING, "stop", model, prompts.prompt_version(self.request))

    def _send_and_parse(self, request: Request) -> ParsedReply:
        reply = self._send(request)
        parsed = parse_reply(reply, request)
        if parsed.fault == Fault.NOTHING and self.request.changes_text:
            return ParsedReply(is_nothing=True)  # this part has no existing lines
        if parsed.fault:
            raise _BadReplyError(reply, parsed.fault)
        self._accepted.append(readable_text(reply))
        return parsed

    def _send(self, request: Request) -> Reply:
        self._call_count += 1
        self._replies.append(self.call(request))
        return self._replies[-1]

    def _is_long(self, request: Request) -> bool:
        return estimate_prompt_tokens(request) > self.limit

    def _usage(self) -> Usage:
        return sum((reply.usage for reply in self._replies), Usage())

    def _with_usage(self, reply: Reply) -> Reply:
        usage = self._usage()
        return replace(
            reply,
            prompt_version=prompts.prompt_version(self.request),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            calls=usage.calls,
            seconds=math.fsum(reply.seconds for reply in self._replies),
            left_out=tuple(dict.fromkeys(self._left_out)),  # both halves of a message have its ref
        )


def _parsed_existing(request: Request) -> ParsedReply:
    """Return the existing lines as the reply to a request without additions (S3), or to a refused one."""
    return ParsedReply([ReplyLine(line.text, (line.ref,)) for line in request.existing])
