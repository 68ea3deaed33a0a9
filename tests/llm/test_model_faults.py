"""What may go wrong at an endpoint, each with its one named outcome."""

import socket
import threading
from collections.abc import Iterator

import pytest

from memories.llm import ModelSummariser, summarise
from memories.rules.reply import Fault, read_reply
from memories.rules.summary import SummariserError
from tests.llm.endpoint import PATH, Endpoint, completion
from tests.llm.requests import messages, short

HELLO = short(messages("hello"))


def failure(summariser: ModelSummariser) -> SummariserError:
    with pytest.raises(SummariserError) as raised:
        summarise(HELLO, summariser)
    return raised.value


@pytest.mark.parametrize(
    ("status", "error", "headers", "code", "permanent", "retry_after"),
    [
        (429, {}, {"Retry_After": "7"}, "rate_limited", False, 7.0),
        (429, {}, {"retry_after_ms": "250"}, "rate_limited", False, 0.25),
        (429, {}, {"Retry_After": "Wed, 21 Oct"}, "rate_limited", False, None),
        (429, {}, {}, "rate_limited", False, None),
        (429, {"code": "insufficient_quota"}, {}, "out_of_credit", True, None),
        (402, {}, {}, "out_of_credit", True, None),
        (401, {"code": "invalid_api_key"}, {}, "unauthorised", True, None),
        (403, {}, {}, "forbidden", True, None),
        (404, {"code": "model_not_found"}, {}, "not_found", True, None),
        (500, {}, {}, "server_error", False, None),
        (503, {}, {"Retry_After": "3"}, "server_error", False, 3.0),
        (529, {}, {}, "server_error", False, None),
        (400, {}, {}, "bad_request", True, None),
        (400, {"code": "context_length_exceeded"}, {}, "context_too_long", True, None),
        (400, {"message": "This exceeds the context window."}, {}, "context_too_long", True, None),
        (413, {}, {}, "context_too_long", True, None),
        (400, {"code": "content_filter"}, {}, "content_filter", True, None),
    ],
    ids=[
        "429 with Retry-After", "429 with milliseconds", "429 with nonsense", "429 without",
        "out of credit", "402", "401", "403", "404", "500", "503 with Retry-After", "529", "400",
        "context too long", "context too long in words", "413", "filtered input",
    ],
)  # fmt: skip
def test_statuses(
    endpoint: Endpoint,
    status: int,
    error: dict[str, str],
    headers: dict[str, str],
    code: str,
    permanent: bool,
    retry_after: float | None,
) -> None:
    endpoint.refuses(status, error, **headers)
    raised = failure(endpoint.summariser())
    assert (raised.code, raised.permanent, raised.retry_after) == (code, permanent, retry_after)
    assert len(endpoint.server.log) == 1  # the client did not try again by itself


def test_the_sentence_quotes_nothing(endpoint: Endpoint) -> None:
    """An endpoint may send the prompt or the key back; neither belongs on a row or in a log."""
    endpoint.refuses(401, {"message": "Wrong key sk-test for: Ana: hello"})
    assert "sk-test" not in str(failure(endpoint.summariser()))


def test_connection_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        raised = failure(_at(taken))
    assert (raised.code, raised.permanent) == ("connection", False)


def test_no_answer_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        raised = failure(_at(silent, timeout=0.05))
    assert (raised.code, raised.permanent) == ("timeout", False)


@pytest.fixture
def cut() -> Iterator[socket.socket]:
    """An endpoint that hangs up in the middle of its answer."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def answer() -> None:
            client, _ = server.accept()
            with client:
                while b"hello" not in client.recv(65536):
                    pass
                client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": [')

        thread = threading.Thread(target=answer)
        thread.start()
        yield server
        thread.join()


def test_connection_broken_half_way(cut: socket.socket) -> None:
    raised = failure(_at(cut))
    assert (raised.code, raised.permanent) == ("connection", False)


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        ("<html>log in</html>", "text/html", "malformed"),
        ("{not json", "application/json", "malformed"),
        ("[]", "application/json", "malformed"),
        ('{"choices": []}', "application/json", "empty"),
        ("{}", "application/json", "empty"),
    ],
    ids=["a page", "no json", "a list", "no choice", "an empty object"],
)
def test_answers_that_are_none(endpoint: Endpoint, body: str, content_type: str, code: str) -> None:
    endpoint.server.expect_request(PATH).respond_with_data(body, content_type=content_type)
    assert failure(endpoint.summariser()).code == code


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
    ],
    ids=[
        "empty", "no content", "white", "length", "filter", "refusal", "context window",
        "no finish reason", "tool calls",
    ],
)  # fmt: skip
def test_replies_that_are_no_good(
    endpoint: Endpoint, body: dict[str, object], fault: Fault
) -> None:
    """Rule 8: they come back with their tokens, and reading them names the fault."""
    endpoint.answers(body)
    reply = summarise(HELLO, endpoint.summariser())
    assert read_reply(reply, HELLO).fault == fault
    assert (reply.calls, reply.prompt_tokens) == (1, 100)


def test_malformed_references_leave_an_unmarked_line(endpoint: Endpoint) -> None:
    endpoint.answers("- hello [one, 77, -]\n- hi [99]")
    reading = read_reply(summarise(HELLO, endpoint.summariser()), HELLO)
    assert [(line.text, line.refs) for line in reading.lines] == [
        ("hello [one, 77, -]", ()),
        ("hi", ()),
    ]


def test_a_context_that_turns_out_too_long_is_split(endpoint: Endpoint) -> None:
    """The endpoint knows its limit better than we do: the halves are tried once it has said so."""
    too_long = {"error": {"message": "no", "code": "context_length_exceeded"}}
    endpoint.server.expect_ordered_request(PATH).respond_with_json(too_long, status=400)
    for text in ("- one [1]", "- two [2]", "- both [1, 2]"):
        endpoint.server.expect_ordered_request(PATH).respond_with_json(completion(text))
    reply = summarise(short(messages("one", "two")), endpoint.summariser())
    assert (reply.text, reply.calls) == ("- both [1, 2]", 3)


def _at(server: socket.socket, timeout: float = 5.0) -> ModelSummariser:
    url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    return ModelSummariser(api_key="sk-test", base_url=url, model="tiny", timeout=timeout)
