"""A check of the model: one small request that shows whether the configured model answers."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone

from memories.models import ModelCall, Price, Reader, User
from memories.pipeline.costs.spending import SAFETY
from memories.pipeline.costs.usage import budget_uses
from memories.pipeline.generate.passes import configured_summariser
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import MessageLine, Request, SummariserError

REQUEST = Request(
    scope=MemoryScope.CHANNEL,
    memory_type=MemoryType.SHORT_TERM,
    max_tokens=100,
    language="en",
    zone="UTC",
    scope_name="#test",
    messages=[
        MessageLine(1, datetime(2026, 1, 5, 9, 0, tzinfo=UTC), "Ann", "We meet on Tuesday at ten."),
        MessageLine(2, datetime(2026, 1, 5, 9, 1, tzinfo=UTC), "Bob", "Good, I bring the figures."),
    ],
)


@dataclass(frozen=True)
class ModelCheck:
    """The result. ``fault`` is "" when the model answered; ``model`` is its own name for itself."""

    fault: str = ""
    model: str = ""
    seconds: float = 0.0
    tokens: int = 0


def check_model(by: User, now: datetime) -> ModelCheck:
    """Call the model once and count the call. Raises ValueError when no model is configured."""
    summariser = configured_summariser()
    if not summariser.endpoint:
        raise ValueError("no model is named")
    of_all = [
        use for use in budget_uses(Reader.of(by), None, now) if use.budget.workspace_id is None
    ]
    if any(use.is_reached for use in of_all):
        return ModelCheck(fault="over_budget")
    bound = summariser.upper_bound(REQUEST)
    tokens_in = math.ceil(bound.prompt_tokens * SAFETY)
    price = Price.objects.of_model(summariser.name)
    call = ModelCall.objects.create(
        fence=0,
        model=summariser.name,
        day=now.astimezone(UTC).date(),
        began_at=now,
        tokens=tokens_in + bound.completion_tokens,
        micros=price.micros(tokens_in, bound.completion_tokens) if price else None,
    )
    try:
        reply = summariser.summarise(REQUEST)
    except SummariserError as error:
        # The call may have been charged, so its reservation stays counted.
        call.settle(timezone.now(), fault=error.code, requests=1)
        return ModelCheck(fault=error.code)
    used = (reply.prompt_tokens, reply.completion_tokens)
    call.settle(
        timezone.now(),
        tokens=sum(used),
        micros=price.micros(*used) if price else None,
        prompt_tokens=used[0],
        completion_tokens=used[1],
        requests=reply.calls,
    )
    return ModelCheck(model=reply.model, seconds=reply.seconds, tokens=sum(used))
