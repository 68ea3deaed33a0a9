"""The fault of each way in which a call to an endpoint can fail."""

import email.utils
import json
import socket
from datetime import UTC, datetime, timedelta

import httpx2
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memories.llm import ModelSummariser, faults, summarise
from memories.rules.generate.faults import Fault
from memories.rules.generate.reply import parse_reply
from memories.rules.summariser import SummariserError, Usage
from tests.llm.endpoint import PATH, FakeEndpoint, completion
from tests.llm.requests import messages, short
from tests.processes import PATIENCE

HELLO = short(messages("hello"))


def raised_by(summariser: ModelSummariser) -> SummariserError:
    with pytest.raises(SummariserError) as raised:
        summarise(HELLO, summariser)
    return raised.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "error", "headers", "code", "retry_after"),
    [
        (429, {}, {"Retry_After": "7"}, "rate_limited", 7.0),
        (429, {}, {"retry_after_ms": "250"}, "rate_limited", 0.25),
        (429, {}, {"Retry_After": "Wed, 21 Oct"}, "rate_limited", None),
        (429, {}, {"Retry_After": "nan"}, "rate_limited", None),
        (429, {}, {"Retry_After": "1e300"}, "rate_limited", 86_400.0),
        (429, {}, {}, "rate_limited", None),
        (429, {"code": "insufficient_quota"}, {}, "out_of_credit", None),
        (402, {}, {}, "out_of_credit", None),
        (401, {"code": "invalid_api_key"}, {}, "unauthorised", None),
        (403, {}, {}, "forbidden", None),
        (404, {"code": "model_not_found"}, {}, "not_found", None),
        (500, {}, {}, "server_error", None),
        (503, {}, {"Retry_After": "3"}, "server_error", 3.0),
        (529, {}, {}, "server_error", None),
        (400, {}, {}, "bad_request", None),
        (422, {}, {}, "bad_request", None),
        (400, {"code": "context_length_exceeded"}, {}, "context_too_long", None),
        (400, {"message": "This exceeds the context window."}, {}, "context_too_long", None),
        (413, {}, {}, "context_too_long", None),
        (429, {"message": "Request too large for tiny"}, {}, "context_too_long", None),
        (400, {"code": "content_filter"}, {}, "content_filter", None),
    ],
    ids=[
        "429 with Retry-After", "429 with milliseconds", "429 with nonsense", "no number",
        "429 for ever", "429 without",
        "out of credit", "402", "401", "403", "404", "500", "503 with Retry-After", "529", "400", "422",
        "context too long", "context too long in words", "413",
        "more than a minute's tokens", "filtered input",
    ],
)  # fmt: skip
def test_the_fault_of_a_status(
    endpoint: FakeEndpoint,
    status: int,
    error: dict[str, str],
    headers: dict[str, str],
    code: str,
    retry_after: float | None,
) -> None:
    endpoint.fail_with(status, error, **headers)
    raised = raised_by(endpoint.summariser())
    assert (raised.code, raised.retry_after) == (code, retry_after)
    assert (raised.spent, raised.may_be_charged) == (Usage(), False)
    assert len(endpoint.server.log) == 1  # the client does not retry


def test_the_message_quotes_nothing(endpoint: FakeEndpoint) -> None:
    """A response may contain the prompt or the key, which must not reach a row or a log."""
    endpoint.fail_with(401, {"message": "Wrong key sk-test for: Ana: hello"})
    assert "sk-test" not in str(raised_by(endpoint.summariser()))


@pytest.mark.parametrize(
    ("seconds", "retry_after"),
    [(90, 90.0), (-90, 0.0), (10**7, 86_400.0)],
    ids=["later", "over", "far"],
)
def test_a_date_in_retry_after_counts_from_the_endpoints_clock(
    seconds: int, retry_after: float
) -> None:
    now = datetime(2020, 1, 1, tzinfo=UTC)
    dates = [
        email.utils.format_datetime(d, usegmt=True) for d in (now, now + timedelta(0, seconds))
    ]
    response = httpx2.Response(
        429,
        headers={"Date": dates[0], "Retry-After": dates[1]},
        request=httpx2.Request("POST", "http://127.0.0.1/v1"),
    )
    error = openai.RateLimitError("no", response=response, body=None)
    assert faults.error_of(error, is_sent=True).retry_after == retry_after


def test_a_refused_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # not listening
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        raised = raised_by(
            ModelSummariser(api_key="", base_url=url, model="tiny", timeout=PATIENCE)
        )
    assert raised.code == "connection"
    assert not raised.may_be_charged


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        ("<html>log in</html>", "text/html", "malformed"),
        ("{not json", "application/json", "malformed"),
        ("[]", "application/json", "malformed"),
        ("[" * 100_000, "application/json", "malformed"),
        ("5", "application/json", "malformed"),
        ('{"choices": {"0": 1}}', "application/json", "malformed"),
        ('{"choices": [{"message": {"content": 7}}]}', "application/json", "malformed"),
        ('{"choices": [{}]}', "application/json", "malformed"),
        ('{"choices": []}', "application/json", "empty"),
        ("{}", "application/json", "empty"),
    ],
    ids=[
        "a page",
        "no json",
        "a list",
        "bottomless",
        "a number",
        "no list",
        "no text",
        "no message",
        "no choice",
        "an empty object",
    ],
)
def test_a_response_without_a_completion(
    endpoint: FakeEndpoint, body: str, content_type: str, code: str
) -> None:
    endpoint.server.expect_request(PATH).respond_with_data(body, content_type=content_type)
    raised = raised_by(endpoint.summariser())
    assert (raised.code, raised.may_be_charged) == (code, True)


def test_a_response_without_a_completion_may_have_a_usage(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with(completion("") | {"choices": []})
    raised = raised_by(endpoint.summariser())
    assert (raised.code, raised.spent, raised.may_be_charged) == ("empty", Usage(100, 10, 1), False)
    assert not raised.is_partly_paid


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "content", "refusal", "finish_reason", "usage", "model",
             "prompt_tokens", "completion_tokens", "error"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.fixture
def summariser(endpoint: FakeEndpoint) -> ModelSummariser:
    return endpoint.summariser()


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(status=st.sampled_from([200, 400, 429, 500]), body=JSON)
def test_any_response_gives_a_reply_or_a_named_fault(
    endpoint: FakeEndpoint, summariser: ModelSummariser, status: int, body: object
) -> None:
    endpoint.server.clear()
    endpoint.server.expect_request(PATH).respond_with_data(
        json.dumps(body), status=status, content_type="application/json"
    )
    try:
        reply = summarise(HELLO, summariser)
    except SummariserError as error:
        assert error.code
        return
    parse_reply(reply, HELLO)
    assert reply.prompt_tokens > 0 and reply.model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (completion(""), Fault.BLANK),
        (completion(None), Fault.BLANK),
        (completion(" \n"), Fault.BLANK),
        (completion("- half a li", "length"), Fault.LENGTH),
        (completion("", "content_filter"), Fault.CONTENT_FILTER),
        (completion(None, refusal="I will not."), Fault.REFUSAL),
        (completion("- a [1]", "model_context_window_exceeded"), Fault.UNKNOWN_FINISH),
        (completion("- a [1]", None), Fault.UNKNOWN_FINISH),
        (completion("- a [1]", "tool_calls"), Fault.UNKNOWN_FINISH),
        (completion("- a " + "chatter " * 1500), Fault.TOO_LONG),
        (completion("<<end 00c0ffee>>"), Fault.PROMPT_ECHOED),
        (completion("- こんにちは、" + "今日はとても良い天気ですね。" * 5), Fault.WRONG_LANGUAGE),
    ],
    ids=[
        "empty", "no content", "white", "length", "filter", "refusal", "context window",
        "no finish reason", "tool calls", "three times too long", "echo", "Japanese",
    ],
)  # fmt: skip
def test_the_fault_of_a_bad_reply(
    endpoint: FakeEndpoint, body: dict[str, object], fault: Fault
) -> None:
    """Rule 8: the reply keeps its usage, and parsing it names the fault."""
    endpoint.reply_with(body)
    reply = summarise(HELLO, endpoint.summariser())
    assert parse_reply(reply, HELLO).fault == fault
    assert (reply.calls, reply.prompt_tokens) == (1, 100)


def test_invalid_refs_leave_a_line_without_them(endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("- hello [one, 77, -]\n- hi [99]")
    reading = parse_reply(summarise(HELLO, endpoint.summariser()), HELLO)
    assert [(line.text, line.refs) for line in reading.lines] == [
        ("hello [one, 77, -]", (1,)),
        ("hi", ()),
    ]
