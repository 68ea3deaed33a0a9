"""endpoint → what its model can do, kept on its row: which prompt form fits, and how fast it is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from django.utils import timezone

from memories.llm import ModelSummariser
from memories.models import Endpoint
from memories.models.generate.endpoints import EndpointQuerySet
from memories.pipeline.costs.spending import CallBudget, Refused
from memories.pipeline.generate.passes import configured_summariser
from memories.rules.generate import probe
from memories.rules.generate.faults import Fault
from memories.rules.generate.probe import ProbeResult
from memories.rules.generate.prompts import Prompt
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.summariser import Bound, Reply, Request, SummariserError, Usage

_MOST_TRIES = 5  # each with more room for thoughts


class ProbeRefused(Exception):
    """A cap, or the endpoint's circuit breaker, allows no call now."""


@dataclass
class Prober:
    """The calls of one probe, each reserved and settled like every other."""

    summariser: ModelSummariser
    replies: list[Reply] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = CallBudget(None, self.summariser)

    @property
    def endpoint(self) -> Endpoint:
        if self.budget.endpoint is None:
            raise ValueError("no endpoint was called")
        return self.budget.endpoint

    def findings(self) -> ProbeResult:
        """Ask the small tasks. Raises ProbeRefused and SummariserError."""
        english, japanese = (
            probe.build_conversation(japanese=False),
            probe.build_conversation(japanese=True),
        )
        cites = probe.can_cite(self._summary(english), english)
        keeps_language = probe.can_keep_language(self._summary(japanese), japanese)
        operations = self._answer(probe.build_operations_prompt(), probe.OPERATIONS_LIMIT)
        return ProbeResult(
            cites=cites,
            writes_operations=probe.can_write_operations(operations.text),
            keeps_language=keeps_language,
            context_tokens=self._context_tokens(),
            reasons=probe.has_thoughts(self.replies),
            tokens_per_second=probe.measure_speed(self.replies),
        )

    def _summary(self, request: Request) -> Reply:
        def ask(room: int) -> tuple[Bound, Callable[[], Reply]]:
            wanted = replace(request, thinking_tokens=room)
            return self.summariser.bound(wanted), lambda: self.summariser.summarise(wanted)

        return self._with_room(ask)

    def _answer(self, prompt: Prompt, limit: int) -> Reply:
        def ask(room: int) -> tuple[Bound, Callable[[], Reply]]:
            return Bound(
                probe.estimate_prompt(prompt), limit + room, 1
            ), lambda: self.summariser.answer(prompt, limit, room)

        return self._with_room(ask)

    def _with_room(self, ask: Callable[[int], tuple[Bound, Callable[[], Reply]]]) -> Reply:
        """The reply, with more room for thoughts as long as they leave none for an answer."""
        for _ in range(_MOST_TRIES):
            reply = self._call(*ask(self.budget.thinking_tokens))
            if parse_reply(reply, probe.build_conversation(japanese=False)).fault != Fault.NO_ROOM:
                break
            self.budget.give_room(reply)
        return reply

    def _call(self, bound: Bound, ask: Callable[[], Reply]) -> Reply:
        call = self.budget.reserve_probe(bound, timezone.now())
        if isinstance(call, Refused):
            raise ProbeRefused(call.text or call.why)
        try:
            reply = ask()
        except SummariserError as error:
            self.budget.failed(call, error, timezone.now())
            raise
        usage = Usage(reply.prompt_tokens, reply.completion_tokens, reply.calls)
        self.budget.settle(call, usage, bound, timezone.now())
        self.replies.append(reply)
        return reply

    def _context_tokens(self) -> int | None:
        """Estimated tokens of the longest prompt that was read to its beginning; None when none was."""
        for lines in probe.LONG_PROMPT_LINES:
            prompt = probe.build_long_prompt(lines)
            try:
                reply = self._answer(prompt, probe.WORD_LIMIT)
            except SummariserError as error:
                if error.code != "context_too_long":
                    raise
            else:
                if probe.can_read_first_line(reply.text):
                    return probe.estimate_prompt(prompt)
        return None


def probe_model(summariser: ModelSummariser) -> ProbeResult:
    """Find out what the model can do, and keep it on its endpoint's row. Raises ProbeRefused and
    SummariserError."""
    prober = Prober(summariser)
    findings = prober.findings()
    prober.endpoint.record_findings(findings, timezone.now())
    return findings


def configured_model() -> ModelSummariser | None:
    """The model of the settings; None when the offline highlights are used."""
    summariser = configured_summariser()
    return summariser if isinstance(summariser, ModelSummariser) else None


def configured_endpoints() -> EndpointQuerySet:
    """The row of the model of the settings; empty when none is named, or it was never called."""
    model = configured_model()
    return Endpoint.objects.filter(fingerprint=model.endpoint) if model else Endpoint.objects.none()


def needs_probe() -> bool:
    """Whether a model is named that has answered and was never probed."""
    return configured_endpoints().filter(probed_at=None).answering().exists()
