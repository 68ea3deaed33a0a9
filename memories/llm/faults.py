"""Map the exceptions of the OpenAI client to SummariserError.

No message quotes the endpoint's response, which may contain a part of the prompt or of the key.
"""

import email.utils
from datetime import UTC, datetime

import openai

from memories.rules.summariser import SummariserError

MAX_RETRY_AFTER = 86_400.0  # seconds

_OUT_OF_CREDIT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_TOO_LONG = {
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    "request_too_large",
}
_TOO_LONG_PHRASES = (
    "context length",
    "context window",
    "context size",
    "maximum context",
    "too many tokens",
    "prompt is too long",
)
_ABOVE_MINUTE_LIMIT = (
    "request too large"  # more tokens than a minute allows: a retry cannot succeed
)
_FILTERED = {"content_filter", "content_policy_violation"}
_MAY_BE_CHARGED = {408, 502, 504, 520, 521, 522, 523, 524}
_CODE_OF_STATUS = {
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


def error_of(error: openai.OpenAIError, *, is_sent: bool) -> SummariserError:
    """Return the SummariserError for an exception. ``is_sent``: the request body went out."""
    if isinstance(error, openai.APITimeoutError):
        return timeout_error(is_sent=is_sent)
    if isinstance(error, openai.APIConnectionError):
        return SummariserError(
            "connection", "The connection to the model was lost.", may_be_charged=is_sent
        )
    if isinstance(error, openai.APIStatusError):
        return _error_of_status(error)
    return malformed_error(type(error).__name__)


def timeout_error(*, is_sent: bool) -> SummariserError:
    return SummariserError("timeout", "The model did not reply in time.", may_be_charged=is_sent)


def malformed_error(type_name: str) -> SummariserError:
    """Return the error for status 200 without a completion, such as a proxy's page."""
    message = f"The endpoint's response is not valid ({type_name})."
    return SummariserError("malformed", message, may_be_charged=True)


def _error_of_status(error: openai.APIStatusError) -> SummariserError:
    """Return the error for a status. A gateway's error may follow a charged completion."""
    status = error.status_code
    code = _CODE_OF_STATUS.get(status, "server_error" if status >= 500 else "bad_request")
    error_codes, message = {str(error.code), str(error.type)}, error.message.lower()
    # Endpoints other than OpenAI's send no code for a prompt that is too long.
    is_too_long = status in (400, 422) and any(words in message for words in _TOO_LONG_PHRASES)
    if error_codes & _OUT_OF_CREDIT:
        code = "out_of_credit"
    elif error_codes & _TOO_LONG or is_too_long or status == 429 and _ABOVE_MINUTE_LIMIT in message:
        code = "context_too_long"
    elif error_codes & _FILTERED:
        code = "content_filter"
    return SummariserError(
        code,
        f"The model's endpoint answered with status {status} ({code.replace('_', ' ')}).",
        retry_after=_retry_after(error) if code in ("rate_limited", "server_error") else None,
        may_be_charged=status in _MAY_BE_CHARGED,
    )


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Return the delay in seconds from the headers of OpenAI and other endpoints."""
    headers = error.response.headers
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * factor
        except KeyError:
            continue
        except ValueError:
            until, now = _parse_date(headers[name]), _parse_date(headers.get("date", ""))
            if until is None:
                continue
            # The endpoint's clock may differ from ours.
            seconds = max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)
        if 0 <= seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER)
    return None


def _parse_date(text: str) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(text)
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
