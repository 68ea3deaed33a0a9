"""Summarisers: one calls a model server, one works offline (S3)."""

from functools import cache

from memories.llm.model import ModelSummariser
from memories.llm.offline import OfflineSummariser
from memories.rules.generate.reply import format_with_refs
from memories.rules.summariser import Reply, ReplyLine, Request, RequestStrategy, Summariser

__all__ = ["ModelSummariser", "OfflineSummariser", "get_summariser", "summarise"]


@cache
def get_summariser(*, api_key: str, base_url: str, model: str, timeout: float) -> Summariser:
    """Return the summariser of a model, or the offline one when ``model`` is "".

    ``timeout`` is in seconds. The process shares one instance, because the client is slow to create.
    """
    if not model:
        return OfflineSummariser()
    return ModelSummariser(api_key=api_key, base_url=base_url, model=model, timeout=timeout)


def summarise(
    request: Request, summariser: Summariser, strategy: RequestStrategy = RequestStrategy.WHOLE
) -> Reply:
    """Return the summariser's reply; raise SummariserError.

    An empty request makes no call. Its reply holds the existing lines, or "" (S3).
    """
    if not request.is_empty:
        return summariser.summarise(request, strategy)
    return Reply(
        text=format_with_refs(ReplyLine(line.text, (line.ref,)) for line in request.existing),
        finish_reason="stop",
        model=summariser.name,
        prompt_version=summariser.prompt_version(request),
    )
