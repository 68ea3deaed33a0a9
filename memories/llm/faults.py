"""What goes wrong at an endpoint, in the words of SummariserError: one code for each outcome."""

import email.utils
from datetime import UTC, datetime

import openai

from memories.rules.generate.summariser import SummariserError

MAX_RETRY_AFTER = 86_400.0  # seconds: whatever an endpoint asks for, it is called again in a day

_OUT_OF_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = {
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    "request_too_large",
}
_TOO_LONG_WORDS = (
    "context length",
    "context window",
    "context size",
    "maximum context",
    "too many tokens",
    "prompt is too long",
)
_LARGER_THAN_A_MINUTE = "request too large"  # than a minute's tokens: waiting would not help
_FILTERED = {"content_filter", "content_policy_violation"}
_PERHAPS_CHARGED = {408, 502, 504, 520, 521, 522, 523, 524}
# The status says what to do; a code in the answer may say it better.
_BY_STATUS = {
    400: "bad_request",
    401: "unauthorised",
    402: "out_of_credit",
    403: "forbidden",
    404: "not_found",  # no such model, or a wrong address
    408: "timeout",
    409: "server_error",
    413: "context_too_long",
    422: "bad_request",
    425: "server_error",
    429: "rate_limited",
}


def error_of(error: openai.OpenAIError, *, sent: bool) -> SummariserError:
    """The fault that an exception of the client means. Its sentence never quotes the endpoint's
    answer, for that may hold a part of the prompt or of the key. ``sent``: the question went out."""
    if isinstance(error, openai.APITimeoutError):
        return timeout_error(sent=sent)
    if isinstance(error, openai.APIConnectionError):
        return SummariserError("connection", "The connection to the model broke.", unknown=sent)
    if isinstance(error, openai.APIStatusError):
        return _of_status(error)
    return malformed_error(type(error).__name__)


def timeout_error(*, sent: bool) -> SummariserError:
    return SummariserError("timeout", "The model did not answer in time.", unknown=sent)


def malformed_error(what: str) -> SummariserError:
    """An answer with status 200 that is no completion, such as a proxy's page."""
    sentence = f"The endpoint's answer made no sense ({what})."
    return SummariserError("malformed", sentence, unknown=True)


def _of_status(error: openai.APIStatusError) -> SummariserError:
    """An error that the endpoint names costs nothing; a gateway's may come after the work was done."""
    status = error.status_code
    code = _BY_STATUS.get(status, "server_error" if status >= 500 else "bad_request")
    words, sentence = {str(error.code), str(error.type)}, error.message.lower()
    if words & _OUT_OF_CREDIT:
        code = "out_of_credit"
    elif words & _TOO_LONG or (
        status in (400, 422) and any(w in sentence for w in _TOO_LONG_WORDS)
    ):
        code = "context_too_long"  # endpoints other than OpenAI's have no code
    elif status == 429 and _LARGER_THAN_A_MINUTE in sentence:
        code = "context_too_long"
    elif words & _FILTERED:
        code = "content_filter"
    retry_after = _retry_after(error) if code in ("rate_limited", "server_error") else None
    told = f"The model's endpoint answered with status {status} ({code.replace('_', ' ')})."
    return SummariserError(
        code,
        told,
        retry_after=retry_after,
        unknown=status in _PERHAPS_CHARGED,
    )


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds that the endpoint asked for, from the headers that OpenAI and others send."""
    headers = error.response.headers
    for name, share in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * share
        except KeyError:
            continue
        except ValueError:
            until, now = _date(headers[name]), _date(headers.get("date", ""))
            if until is None:
                continue
            # By the endpoint's own clock: ours may be another.
            seconds = max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)
        if 0 <= seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER)
    return None


def _date(text: str) -> datetime | None:
    try:
        told = email.utils.parsedate_to_datetime(text)
        return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
