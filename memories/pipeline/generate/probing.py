"""Probe a model: find out what it can do, and save the result with its endpoint."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.utils import timezone

from memories.llm import ModelSummariser
from memories.models import Endpoint, ModelCall
from memories.models.generate.endpoints import EndpointQuerySet
from memories.pipeline.costs.spending import CallLedger, CallRefused
from memories.pipeline.generate.passes import configured_summariser
from memories.rules.generate import probe
from memories.rules.generate.faults import Fault
from memories.rules.generate.probe import ProbeResult
from memories.rules.generate.prompts import Prompt
from memories.rules.generate.reply import parse_reply
from memories.rules.summariser import Reply, Request, SummariserError, Usage

_MAX_TRIES = 5  # each with more tokens for reasoning
_PAUSE = timedelta(hours=1)  # between automatic probes


@dataclass
class Prober:
    """Makes the calls of one probe. Each is reserved and settled like the call of a job."""

    summariser: ModelSummariser
    replies: list[Reply] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = CallLedger(None, self.summariser)

    def run(self) -> ProbeResult:
        """Make the calls, and return the result. Raises CallRefused and SummariserError."""
        english = probe.build_conversation(japanese=False)
        japanese = probe.build_conversation(japanese=True)
        gives_sources = probe.can_cite(self._summary(english), english)
        keeps_language = probe.can_keep_language(self._summary(japanese), japanese)
        operations = self._answer(probe.build_operations_prompt(), probe.OPERATIONS_LIMIT)
        return ProbeResult(
            gives_sources=gives_sources,
            writes_operations=probe.can_write_operations(operations.text),
            keeps_language=keeps_language,
            context_tokens=self._context_tokens(),
            reasons=probe.has_thoughts(self.replies),
            tokens_per_second=probe.measure_speed(self.replies),
        )

    def _summary(self, request: Request) -> Reply:
        def send(thinking_tokens: int) -> Reply:
            sent = replace(request, thinking_tokens=thinking_tokens)
            return self._call(
                self.summariser.upper_bound(sent), lambda: self.summariser.summarise(sent)
            )

        return self._retry_without_room(send)

    def _answer(self, prompt: Prompt, limit: int) -> Reply:
        def send(thinking_tokens: int) -> Reply:
            bound = Usage(prompt.tokens, limit + thinking_tokens, 1)
            return self._call(bound, lambda: self.summariser.answer(prompt, limit, thinking_tokens))

        return self._retry_without_room(send)

    def _retry_without_room(self, send: Callable[[int], Reply]) -> Reply:
        """Repeat a call with a higher limit while the reasoning uses up the limit before the answer."""
        for _ in range(_MAX_TRIES):
            reply = send(self.ledger.thinking_tokens)
            if parse_reply(reply, probe.build_conversation(japanese=False)).fault != Fault.NO_ROOM:
                break
            self.ledger.raise_thinking_tokens(reply)
        return reply

    def _call(self, bound: Usage, send: Callable[[], Reply]) -> Reply:
        reply = self.ledger.call_without_job(bound, send)
        self.replies.append(reply)
        return reply

    def _context_tokens(self) -> int | None:
        """Return the estimated tokens of the longest prompt that the model read in full, or None.

        A prompt that the model does not read in time is too long. Another error ends the search: the
        findings so far are paid.
        """
        for lines in probe.LONG_PROMPT_LINES:
            prompt = probe.build_long_prompt(lines)
            try:
                reply = self._answer(prompt, probe.WORD_LIMIT)
            except CallRefused:
                return None
            except SummariserError as error:
                if error.code not in ("context_too_long", "timeout"):
                    return None
            else:
                if probe.can_read_first_line(reply.text):
                    return prompt.tokens
        return None


def probe_model(summariser: ModelSummariser) -> ProbeResult:
    """Save and return the result. Raises CallRefused and SummariserError."""
    prober = Prober(summariser)
    result = prober.run()
    endpoint = prober.ledger.endpoint
    assert endpoint is not None  # a model has one
    endpoint.record_probe(result, timezone.now())
    return result


def configured_model() -> ModelSummariser | None:
    """Return the model of the settings, or None without one."""
    summariser = configured_summariser()
    return summariser if isinstance(summariser, ModelSummariser) else None


def configured_endpoints() -> EndpointQuerySet:
    """Return the row of the configured model's endpoint. It exists from the first call on."""
    model = configured_model()
    return Endpoint.objects.filter(fingerprint=model.endpoint) if model else Endpoint.objects.none()


def needs_probe() -> bool:
    """Return whether the configured model was never probed, and its endpoint has no failure now.

    After a probe that failed it is False for an hour.
    """
    if not configured_endpoints().filter(probed_at=None).answering().exists():
        return False
    since = timezone.now() - _PAUSE
    calls = ModelCall.objects.filter(job=None, workspace=None, began_at__gt=since)
    model = configured_model()
    return model is not None and not calls.filter(model=model.name).exists()
