"""What goes wrong at an endpoint, in the words of SummariserError: one code for each outcome."""

import openai

from memories.rules.summary import SummariserError

_OUT_OF_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = {"context_length_exceeded", "string_above_max_length", "request_too_large"}
_TOO_LONG_WORDS = ("context length", "context window", "maximum context", "too many tokens")
# The status says what to do; a code in the answer may say it better.
_BY_STATUS = {
    400: ("bad_request", True),
    401: ("unauthorised", True),
    402: ("out_of_credit", True),
    403: ("forbidden", True),
    404: ("not_found", True),  # no such model, or a wrong address
    408: ("timeout", False),
    409: ("server_error", False),
    413: ("context_too_long", True),
    422: ("bad_request", True),
    429: ("rate_limited", False),
}


def fault(error: openai.OpenAIError) -> SummariserError:
    """The fault that an exception of the client means. Its sentence never quotes the endpoint's
    answer, for that may hold a part of the prompt or of the key."""
    if isinstance(error, openai.APITimeoutError):
        return SummariserError("timeout", "The model did not answer in time.")
    if isinstance(error, openai.APIConnectionError):
        return SummariserError("connection", "The connection to the model broke.")
    if isinstance(error, openai.APIStatusError):
        return _of_status(error)
    return SummariserError("malformed", f"The endpoint's answer made no sense ({_name(error)}).")


def malformed(error: Exception) -> SummariserError:
    """An answer with status 200 that is no completion, such as a proxy's page."""
    return SummariserError("malformed", f"The endpoint's answer made no sense ({_name(error)}).")


def _of_status(error: openai.APIStatusError) -> SummariserError:
    status = error.status_code
    code, permanent = _BY_STATUS.get(
        status, ("server_error" if status >= 500 else "bad_request", status < 500)
    )
    words = {str(error.code), str(error.type)}
    if words & _OUT_OF_CREDIT:
        code, permanent = "out_of_credit", True
    elif words & _TOO_LONG or (status == 400 and _says_too_long(error)):
        code, permanent = "context_too_long", True
    elif "content_filter" in words:
        code, permanent = "content_filter", True
    retry_after = _retry_after(error) if code in ("rate_limited", "server_error") else None
    sentence = f"The model's endpoint answered with status {status} ({code.replace('_', ' ')})."
    return SummariserError(code, sentence, permanent=permanent, retry_after=retry_after)


def _says_too_long(error: openai.APIStatusError) -> bool:
    """Endpoints other than OpenAI's tell it in a sentence only."""
    return any(words in error.message.lower() for words in _TOO_LONG_WORDS)


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds that the endpoint asked for, from the headers that OpenAI and others send."""
    headers = error.response.headers
    for name, share in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * share
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _name(error: Exception) -> str:
    return type(error).__name__
