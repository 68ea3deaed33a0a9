"""The one way to a summary: which summariser a configuration means, and the call of it (S3)."""

from functools import cache

from memories.llm.model import ModelSummariser
from memories.llm.offline import OfflineSummariser
from memories.rules.generate.reply import format_with_refs
from memories.rules.generate.summariser import (
    Reply,
    ReplyLine,
    Request,
    RequestStrategy,
    Summariser,
    SummariserError,
)

__all__ = ["ModelSummariser", "OfflineSummariser", "SummariserError", "configured", "summarise"]


@cache
def get_summariser(*, api_key: str, base_url: str, model: str, timeout: float) -> Summariser:
    """The model's summariser, or the offline one when no model is named. ``timeout`` in seconds.
    The same one for the whole process: its client is slow to make."""
    if not model:
        return OfflineSummariser()
    return ModelSummariser(api_key=api_key, base_url=base_url, model=model, timeout=timeout)


def summarise(
    request: Request, summariser: Summariser, way: RequestStrategy = RequestStrategy.WHOLE
) -> Reply:
    """The summariser's reply; without anything to summarise no call is made and the existing
    lines come back as they were, or "" (S3). Raises SummariserError."""
    if not request.is_empty:
        return summariser.summarise(request, way)
    return Reply(
        text=format_with_refs(ReplyLine(line.text, (line.ref,)) for line in request.existing),
        finish_reason="stop",
        model=summariser.name,
        prompt_version=summariser.prompt_version(request),
    )
