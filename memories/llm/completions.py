"""Parse an endpoint's response with status 200. Any field may be missing or of a wrong type."""

from typing import Any

from openai.types.chat import ChatCompletion

from memories.llm.faults import malformed_error
from memories.rules.generate.prompts import Prompt
from memories.rules.ingest.characters import make_storable
from memories.rules.summariser import MAX_MODEL_NAME, Reply, SummariserError, Usage
from memories.rules.tokens import estimate_tokens


def parse_completion(response: Any, prompt: Prompt, model: str, seconds: float) -> Reply:
    """Return the reply, with estimates of missing token counts; raise SummariserError."""
    if not isinstance(response, ChatCompletion):
        raise malformed_error(type(response).__name__)
    choices: Any = getattr(response, "choices", None)
    usage: Any = getattr(response, "usage", None)
    prompt_tokens = _token_count(getattr(usage, "prompt_tokens", None))
    completion_tokens = _token_count(getattr(usage, "completion_tokens", None))
    if not choices:
        raise SummariserError(
            "empty",
            "The endpoint's response has no completion.",
            spent=Usage(prompt_tokens, completion_tokens, 1) if prompt_tokens else None,
            may_be_charged=not prompt_tokens,
        )
    choice = choices[0] if isinstance(choices, list) else None
    message = getattr(choice, "message", None)
    content: Any = getattr(message, "content", None)
    if message is None or not isinstance(content, str | None):
        raise malformed_error(type(response).__name__)
    text = make_storable(content or "")
    is_refused = not text and getattr(message, "refusal", None)
    response_model: Any = getattr(response, "model", None)
    name = response_model if isinstance(response_model, str) and response_model else model
    finish_reason = str(getattr(choice, "finish_reason", None))
    return Reply(
        text=text,
        finish_reason="refusal" if is_refused else make_storable(finish_reason),
        model=make_storable(name, MAX_MODEL_NAME),
        prompt_version=prompt.version,
        prompt_tokens=prompt_tokens or prompt.tokens,
        completion_tokens=completion_tokens or estimate_tokens(text),
        calls=1,
        seconds=seconds,
    )


def _token_count(value: Any) -> int:
    """Return a count that fits its column, or 0 for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
        return value
    return 0
