"""An endpoint's answer with status 200, in our words. Nothing about its form is taken on trust."""

from typing import Any

from openai.types.chat import ChatCompletion

from memories.llm.faults import malformed_error
from memories.rules.generate.prompts import Prompt
from memories.rules.generate.summariser import Reply, SummariserError, Usage
from memories.rules.generate.tokens import estimate_tokens


def parse_completion(answer: Any, prompt: Prompt, model: str, seconds: float) -> Reply:
    """The reply; tokens that it does not tell are estimated. Raises SummariserError."""
    if not isinstance(answer, ChatCompletion):
        raise malformed_error(type(answer).__name__)
    choices: Any = getattr(answer, "choices", None)
    used: Any = getattr(answer, "usage", None)
    prompt_tokens = _count(getattr(used, "prompt_tokens", None))
    completion_tokens = _count(getattr(used, "completion_tokens", None))
    if not choices:
        known = Usage(prompt_tokens, completion_tokens, 1) if prompt_tokens else Usage()
        raise SummariserError(
            "empty",
            "The endpoint answered without a completion.",
            spent=known,
            unknown=not prompt_tokens,
        )
    choice = choices[0] if isinstance(choices, list) else None
    message = getattr(choice, "message", None)
    content: Any = getattr(message, "content", None)
    if message is None or not isinstance(content, str | None):
        raise malformed_error(type(answer).__name__)
    text = content or ""
    refused = not text and getattr(message, "refusal", None)
    named: Any = getattr(answer, "model", None)
    return Reply(
        text=text,
        finish_reason="refusal" if refused else str(getattr(choice, "finish_reason", None)),
        model=named if isinstance(named, str) and named else model,
        prompt_version=prompt.version,
        prompt_tokens=prompt_tokens
        or estimate_tokens(prompt.system) + estimate_tokens(prompt.user),
        completion_tokens=completion_tokens or estimate_tokens(text),
        calls=1,
        seconds=seconds,
    )


def _count(value: Any) -> int:
    """Tokens, as columns can hold them; 0 when there is no sense in it."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
        return value
    return 0
