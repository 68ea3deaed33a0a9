"""Each fault of a model in a whole pass, with the real client against a local endpoint: what becomes
of the job, of the text that was there, and of the calls that follow."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.llm import ModelSummariser
from memories.models import AuditEvent, Cap, Channel, Endpoint, Job, Memory, ModelCall, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.report import Report
from memories.rules.generate.circuit_breaker import MAX_FAILURES
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.templatetags.reading import reason_words
from tests.factories import MONDAY, ChannelFactory, MessageFactory, UserFactory
from tests.pipeline import conversations
from tests.pipeline.current import short
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(hours=3)
GOOD = "- Steps 0 to 9 are done. [1 10]"


def answer(text: str | None = GOOD, finish: str = "stop", refusal: str | None = None) -> Response:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "test-1",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
    }
    return Response(json.dumps(body), 200, mimetype="application/json")


def error(status: int, code: str = "", **headers: str) -> Response:
    body = json.dumps({"error": {"message": "no", "type": "x", "code": code or None}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status, named, mimetype="application/json")


class Model:
    """Answers what it is told, one after the other, then well; counts what it was asked."""

    def __init__(self, server: HTTPServer) -> None:
        self.asked: list[str] = []
        self.script: list[Response] = []
        self.always: Callable[[str], Response] = lambda user: answer()
        server.expect_request("/v1/chat/completions").respond_with_handler(self._answer)
        self.summariser = ModelSummariser(
            api_key="k", base_url=server.url_for("/v1"), model="test-1", timeout=PATIENCE
        )

    def _answer(self, request: Request) -> Response:
        user = request.json["messages"][1]["content"]
        self.asked.append(user)
        return self.script.pop(0) if self.script else self.always(user)


@pytest.fixture
def model(httpserver: HTTPServer) -> Model:
    return Model(httpserver)


@pytest.fixture
def channel() -> Channel:
    channel = ChannelFactory(workspace__settings={"thread_memories": False}, name="launch")
    channel.remember_from(to_micros(MONDAY))
    talk(channel)
    return channel


def talk(channel: Channel, at: timedelta = timedelta(0)) -> None:
    for minute in range(10):
        MessageFactory(
            channel=channel,
            at=MONDAY + at + timedelta(minutes=minute),
            text=f"Step {minute} is done.",
        )


def one_pass(channel: Channel, model: Model) -> Report:
    return run_pass(channel.workspace, NOW, model.summariser)


def whatever_waits_is_due() -> None:
    now = timezone.now()
    Job.objects.filter(not_before__gt=now).update(not_before=now)
    Endpoint.objects.filter(not_before__gt=now).update(not_before=now)
    Endpoint.objects.filter(open_until__gt=now).update(open_until=now)


# -- what becomes of the row

OURS = "- It is the team's channel and its people speak here about the launch of it. " * 60
ECHO = "<<messages 00000000 begin>>\n- Step 0 is done."
JAPANESE = (
    "- 公開に向けた手順はすべて終わっていて、みんなで確認しながら進めることができました。[1, 10]\n"
    "- 次の確認は来週に行うことになり、それまでに残りの点を見直しておきます。[3]"
)
WAITS, HELD, GOES_ON = "waits", "held by the endpoint", "asked again at once"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "fault", "becomes", "attempts"),
    [
        pytest.param(error(500), "server_error", WAITS, 0, id="500"),
        pytest.param(error(529), "server_error", WAITS, 0, id="529"),
        pytest.param(Response("<html>", 200), "malformed", WAITS, 0, id="a proxy's page"),
        pytest.param(error(429), "rate_limited", HELD, 0, id="429 without a time"),
        pytest.param(
            error(429, Retry_After="90"), "rate_limited", HELD, 0, id="429 with Retry-After"
        ),
        pytest.param(error(429, "insufficient_quota"), "out_of_credit", HELD, 0, id="no credit"),
        pytest.param(error(402), "out_of_credit", HELD, 0, id="402"),
        pytest.param(error(401), "unauthorised", HELD, 0, id="401"),
        pytest.param(error(403), "forbidden", HELD, 0, id="403"),
        pytest.param(error(404), "not_found", HELD, 0, id="no such model"),
        pytest.param(answer(""), "blank", GOES_ON, 1, id="empty"),
        pytest.param(answer(None), "blank", GOES_ON, 1, id="null"),
        pytest.param(answer("  \n\n"), "blank", GOES_ON, 1, id="white space"),
        pytest.param(answer("- half a", "length"), "length", GOES_ON, 1, id="cut off"),
        pytest.param(answer("", "content_filter"), "content_filter", GOES_ON, 1, id="filter"),
        pytest.param(answer(None, refusal="No."), "refusal", GOES_ON, 1, id="refusal"),
        pytest.param(answer("I'm sorry, I can't."), "refusal", GOES_ON, 1, id="said refusal"),
        pytest.param(answer("- x", "tired"), "unknown_finish", GOES_ON, 1, id="unknown finish"),
        pytest.param(answer(ECHO), "prompt_echoed", GOES_ON, 1, id="echo"),
        pytest.param(answer(OURS), "too_long", GOES_ON, 1, id="three times too long"),
    ],
)
def test_one_fault(
    channel: Channel, model: Model, reply: Response, fault: str, becomes: str, attempts: int
) -> None:
    """The first answer is bad: nothing of it is saved, and what follows is the policy's."""
    model.script = [reply]
    report = one_pass(channel, model)
    assert any(fault in told for told in report.errors), report.errors
    job = short(channel).jobs.get()
    if becomes == GOES_ON:
        assert job.state == "done"
        assert job.attempts == attempts + 1
        assert short(channel).current.content == GOOD.partition(" [")[0]
        return
    assert (job.fault, job.state) == (fault, "waiting")
    assert job.attempts == attempts
    assert job.not_before > timezone.now()
    assert short(channel).head == 0
    assert len(model.asked) == 1
    held = [one["why"] for one in report.refusals]
    if becomes == HELD:
        assert held == ["rate_limited" if fault == "rate_limited" else "needs_person"]
        assert one_pass(channel, model).calls == 0, "not for this one, not for any other"
        assert len(model.asked) == 1
    else:
        assert held == []


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        pytest.param(error(400), "bad_request", id="400"),
        pytest.param(error(422), "bad_request", id="422"),
    ],
)
def test_what_fails_for_good_is_given_up_at_once(
    channel: Channel, model: Model, reply: Response, fault: str
) -> None:
    model.always = lambda user: reply
    one_pass(channel, model)
    job = short(channel).jobs.get()
    assert (job.state, job.fault, job.attempts) == ("dead", fault, 1)
    assert job.retry() is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [answer(""), answer("- x", "tired"), answer(ECHO)],
    ids=["empty", "unknown finish", "echo"],
)
def test_what_always_fails_is_a_dead_letter_after_five(
    channel: Channel, model: Model, reply: Response
) -> None:
    model.always = lambda user: reply
    for _ in range(9):
        one_pass(channel, model)
        whatever_waits_is_due()
    job = short(channel).jobs.get()
    assert (job.state, job.attempts) == ("dead", 5)
    assert len(model.asked) == 5
    assert short(channel).head == 0


@pytest.mark.slow
def test_an_old_text_stays_when_the_next_one_fails(channel: Channel, model: Model) -> None:
    one_pass(channel, model)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    before = memory.current.content
    talk(channel, timedelta(hours=6))
    model.always = lambda user: answer("", "length")
    for hour in range(10, 20):
        run_pass(channel.workspace, MONDAY + timedelta(hours=hour), model.summariser)
        whatever_waits_is_due()
    memory.refresh_from_db()
    assert (memory.current.content, memory.head) == (before, 1)
    assert short(channel).jobs.filter(state="dead").count() == 1


# -- the endpoint, shared by everybody


@pytest.mark.slow
def test_rate_limits_hold_back_everybody_and_cost_no_attempt(
    channel: Channel, model: Model
) -> None:
    other = ChannelFactory(workspace__settings={"thread_memories": False})
    other.remember_from(to_micros(MONDAY))
    talk(other)
    model.script = [error(429, Retry_After="90")]
    one_pass(channel, model)
    endpoint = Endpoint.objects.get()
    wait = endpoint.not_before - timezone.now()
    assert timedelta(seconds=80) < wait <= timedelta(seconds=90)
    assert one_pass(other, model).calls == 0, "another workspace, the same endpoint"
    whatever_waits_is_due()
    one_pass(channel, model)
    one_pass(other, model)
    assert short(channel).jobs.get().attempts == 1
    assert short(other).jobs.get().attempts == 1


@pytest.mark.slow
def test_a_short_rate_limit_is_waited_for_within_the_pass(channel: Channel, model: Model) -> None:
    model.script = [error(429, Retry_After="0.2")]
    report = one_pass(channel, model)
    assert report.left == 0
    assert short(channel).head == 1


def crowd(workspace_channels: int) -> Channel:
    first = ChannelFactory(workspace__settings={"thread_memories": False})
    channels = [first]
    channels += [ChannelFactory(workspace=first.workspace) for _ in range(workspace_channels - 1)]
    for channel in channels:
        channel.remember_from(to_micros(MONDAY))
        talk(channel)
    return first


@pytest.mark.slow
def test_five_failures_in_a_row_open_the_breaker_and_a_probe_closes_it(
    model: Model, settings: Iterator[None]
) -> None:
    settings.MEMORYHUB_LLM_CONCURRENCY = 1
    channel = crowd(MAX_FAILURES + 2)
    model.always = lambda user: error(503)
    report = one_pass(channel, model)
    assert len(model.asked) == MAX_FAILURES
    assert [one["why"] for one in report.refusals] == ["breaker_open"]
    assert report.left == MAX_FAILURES + 2
    assert one_pass(channel, model).calls == 0
    assert len(model.asked) == MAX_FAILURES

    whatever_waits_is_due()
    one_pass(channel, model)
    assert len(model.asked) == MAX_FAILURES + 1, "half open: one probe, which failed"

    whatever_waits_is_due()
    model.always = lambda user: answer()
    for _ in range(3):
        report = one_pass(channel, model)
        whatever_waits_is_due()
    assert report.left == 0
    assert Endpoint.objects.get().failures == 0


@pytest.mark.slow
def test_a_wrong_key_waits_for_a_person_who_says_go_on(channel: Channel, model: Model) -> None:
    good, model.always = model.always, lambda user: error(401)
    one_pass(channel, model)
    Job.objects.update(not_before=None)
    one_pass(channel, model)
    assert len(model.asked) == 1, "no retry"
    model.always = good
    anna = UserFactory(username="anna")
    assert Endpoint.objects.get().resume(anna) is True
    assert Endpoint.objects.get().resume(anna) is False
    told = AuditEvent.objects.get(action="endpoint_resume")
    assert (told.actor, told.details) == ("anna", {"fault": "unauthorised"})
    one_pass(channel, model)
    assert short(channel).head == 1


@pytest.mark.slow
def test_another_key_begins_with_a_clean_slate(
    channel: Channel, model: Model, httpserver: HTTPServer
) -> None:
    model.script = [error(401)]
    one_pass(channel, model)
    renewed = ModelSummariser(
        api_key="another", base_url=httpserver.url_for("/v1"), model="test-1", timeout=PATIENCE
    )
    Job.objects.update(not_before=None)
    run_pass(channel.workspace, NOW, renewed)
    assert short(channel).head == 1
    assert not Endpoint.objects.filter(fingerprint__contains="another").exists()


# -- what it cost


@pytest.mark.slow
def test_a_clean_refusal_costs_nothing_and_a_lost_answer_counts_whole(
    channel: Channel, model: Model, httpserver: HTTPServer
) -> None:
    model.script = [error(500)]
    one_pass(channel, model)
    refused = ModelCall.objects.get()
    assert (refused.tokens, refused.fault) == (0, "server_error")
    assert refused.ended_at is not None
    impatient = ModelSummariser(
        api_key="k", base_url=httpserver.url_for("/slow"), model="test-1", timeout=0.2
    )

    given_up = threading.Event()

    def answer_too_late(request: Request) -> Response:
        given_up.wait(PATIENCE)
        return answer()

    httpserver.expect_request("/slow/chat/completions").respond_with_handler(answer_too_late)
    whatever_waits_is_due()
    try:
        run_pass(channel.workspace, NOW, impatient)
    finally:
        given_up.set()
    lost = ModelCall.objects.order_by("pk").last()
    assert (lost.fault, lost.prompt_tokens) == ("timeout", 0)
    assert lost.tokens > 300, "what it was allowed to use may have been paid"


# -- what is too much at once


def steps_in(user: str) -> list[int]:
    """The numbers of the messages that a prompt shows."""
    return [step for step in range(10) if f"Step {step} is done." in user and "<<messages" in user]


def halves_and_whole(model: Model) -> None:
    """Each prompt has its own answer: the steps it shows, by their refs; or the sum of the parts."""

    def answered(user: str) -> Response:
        if steps := steps_in(user):
            first, last = steps[0], steps[-1]
            return answer(f"- Steps {first} to {last} are done. [{first + 1}, {last + 1}]")
        return answer("- All steps are done. [1, 2]")

    model.always = answered


@pytest.mark.slow
def test_a_context_too_long_is_asked_in_halves_and_combined(channel: Channel, model: Model) -> None:
    halves_and_whole(model)
    as_told = model.always
    model.always = lambda user: (
        error(400, "context_length_exceeded") if len(steps_in(user)) > 6 else as_told(user)
    )
    report = one_pass(channel, model)
    assert any("context_too_long" in told for told in report.errors), report.errors
    assert report.left == 0
    job, version = short(channel).jobs.get(), short(channel).current
    assert (job.state, job.way, job.attempts) == ("done", "split", 2)
    assert version.content == "- All steps are done."
    shown = [steps for user in model.asked if (steps := steps_in(user))]
    assert shown[:3] == [list(range(10)), [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    cited = {message.text for message in version.lines.get().sources.all()}
    assert cited == {f"Step {step} is done." for step in (0, 4, 5, 9)}, "of both halves"
    assert version.source_message_count == 10, "nothing was left out"


@pytest.mark.slow
def test_an_answer_cut_off_twice_is_asked_in_halves(channel: Channel, model: Model) -> None:
    halves_and_whole(model)
    model.script = [answer("- Steps 0 to", "length"), answer("- Steps 0 to", "length")]
    report = one_pass(channel, model)
    assert [told.rpartition(": ")[2] for told in report.errors] == ["length", "length"]
    job = short(channel).jobs.get()
    assert (job.state, job.way, job.attempts) == ("done", "split", 3)
    assert [steps_in(user) for user in model.asked[:4]] == [
        *[list(range(10))] * 2,
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
    assert short(channel).current.content == "- All steps are done."


@pytest.mark.slow
def test_what_is_cut_off_in_halves_too_is_a_dead_letter(channel: Channel, model: Model) -> None:
    model.always = lambda user: answer("- Steps 0 to", "length")
    for _ in range(4):
        one_pass(channel, model)
        whatever_waits_is_due()
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("dead", "length")
    assert short(channel).head == 0, "half a text is never saved"


@pytest.mark.slow
def test_an_answer_in_another_language_is_asked_again(model: Model) -> None:
    channel = ChannelFactory(workspace__settings={"thread_memories": False})
    channel.remember_from(to_micros(MONDAY))
    for minute in range(10):
        MessageFactory(
            channel=channel,
            at=MONDAY + timedelta(minutes=minute),
            text=f"We have finished step {minute} of the launch and all of it looks good to me.",
        )
    model.script = [answer(JAPANESE)]
    report = one_pass(channel, model)
    assert [told.rpartition(": ")[2] for told in report.errors] == ["wrong_language"]
    job = short(channel).jobs.get()
    assert (job.state, job.attempts) == ("done", 2)
    assert short(channel).current.content == GOOD.partition(" [")[0]


@pytest.mark.slow
def test_a_connection_that_breaks_in_the_answer(channel: Channel) -> None:
    """It may have been paid: it counts whole, and is asked again later."""

    class Breaks(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"id": ')

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Breaks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        summariser = ModelSummariser(api_key="k", base_url=url, model="test-1", timeout=PATIENCE)
        report = run_pass(channel.workspace, NOW, summariser)
        server.shutdown()
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("waiting", "connection"), report.errors
    assert job.attempts == 0, "the endpoint's fault"
    assert ModelCall.objects.get().tokens > 300
    assert short(channel).head == 0


def test_no_connection_at_all(channel: Channel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    summariser = ModelSummariser(api_key="k", base_url=nobody, model="test-1", timeout=PATIENCE)
    report = run_pass(channel.workspace, NOW, summariser)
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("waiting", "connection"), report.errors
    assert ModelCall.objects.get().tokens == 0, "nothing was sent, so nothing was paid"


# -- a message that is refused


@pytest.mark.slow
def test_a_refused_message_is_left_out_and_said_so(channel: Channel, model: Model) -> None:
    model.always = lambda user: (
        answer("", "content_filter")
        if "Step 7" in user and "<<messages" in user
        else answer("- Steps are done. [1]")
    )
    report = one_pass(channel, model)
    assert report.left == 0
    version = short(channel).current
    assert version.trigger["left_out"] == 1
    assert "refused to read 1 message" in reason_words(version.trigger)
    assert version.job.way == "isolate"


@pytest.mark.slow
def test_where_all_are_refused_it_is_a_dead_letter(channel: Channel, model: Model) -> None:
    model.always = lambda user: answer("", "content_filter")
    for _ in range(6):
        one_pass(channel, model)
        whatever_waits_is_due()
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("dead", "content_filter")
    assert short(channel).head == 0


@pytest.mark.slow
def test_a_request_in_parts_that_is_rate_limited_each_time_comes_to_an_end(
    workspace: Workspace, model: Model
) -> None:
    """Its first parts are paid anew each time."""
    channel = conversations.remembering(workspace)
    conversations.talk(channel, 10, words="The long step " + "of many words " * 300)
    model.summariser._input_limit = 2_000
    paid = []

    def always(user: str) -> Response:
        paid.append(1)
        return error(429, Retry_After="0") if len(paid) % 4 == 0 else answer()

    model.always = always
    for _ in range(6):
        one_pass(channel, model)
        whatever_waits_is_due()
    row = short(channel).jobs.order_by("pk").first()
    assert row.calls > 0 and Job.objects.count() == 1
    assert row.state == "dead" or row.attempts > 0, f"{row.calls} paid calls, no attempt used"


@pytest.mark.slow
def test_beside_a_probe_that_is_answered_nobody_waits_long(
    workspace: Workspace, model: Model
) -> None:
    for _ in range(4):
        talk(conversations.remembering(workspace))
    run_pass(workspace, MONDAY + timedelta(minutes=1), model.summariser)  # makes the endpoint's row
    a_moment_ago = timezone.now() - timedelta(seconds=1)
    Endpoint.objects.update(failures=5, openings=1, open_until=a_moment_ago)
    run_pass(workspace, NOW, model.summariser)
    assert Endpoint.objects.get().failures == 0
    held = Job.objects.filter(not_before__gt=timezone.now() + timedelta(seconds=60))
    assert not held.exists()


# -- an outage is nobody's fault


DONE = "- Step 9 is done. [10]"  # no channel's own words: what one says may stand in another


class Clock:
    """The real clock, some hours on: what waits is due without waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta(0)
        real = timezone.now
        monkeypatch.setattr(timezone, "now", lambda: real() + self.ahead)

    def passes(self, channel: Channel, model: Model, minutes: int, step: int = 5) -> None:
        """A pass every few minutes, as the timetable makes them."""
        for _ in range(0, minutes, step):
            self.ahead += timedelta(minutes=step)
            one_pass(channel, model)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def hang(user: str) -> Response:
    time.sleep(0.5)  # longer than the client waits
    return answer()


OUTAGES = {
    "503": lambda user: error(503),
    "wrong key": lambda user: error(401),
    "no credit": lambda user: error(429, "insufficient_quota"),
    "a proxy's page": lambda user: Response("<html>", 200),
    "hangs": hang,
}


@pytest.mark.slow
@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_after_an_outage_of_two_hours_all_is_remembered_without_a_command(
    model: Model, clock: Clock, settings: Any, outage: Callable[[str], Response]
) -> None:
    settings.MEMORYHUB_LLM_CONCURRENCY = 2
    channel = crowd(3)
    cap = Cap.objects.create(period=Cap.Period.MONTH, tokens=100_000)
    model.summariser._timeout = 0.2
    model.always = outage
    clock.passes(channel, model, minutes=120)
    assert Job.objects.exclude(state="waiting").count() == 0
    assert not Job.objects.filter(attempts__gt=0).exists(), "nobody's fault"
    assert len(model.asked) <= 5 + 2 + 120 / 10 + 4, "five in a row, then a probe now and then"
    model.summariser._timeout = PATIENCE
    model.always = lambda user: answer(DONE)
    clock.passes(channel, model, minutes=40)
    assert not Job.objects.unfinished().exists()
    assert not Job.objects.filter(state="dead").exists()
    assert [short(one).head for one in channel.workspace.channels.all()] == [1, 1, 1]
    tokens, _micros = ModelCall.objects.counting_against(cap, timezone.now().date()).committed()
    assert tokens <= cap.tokens


@pytest.mark.slow
def test_what_fails_alone_while_others_are_answered_is_given_up(model: Model, clock: Clock) -> None:
    """Its message brings the server down; the others go first, and are remembered."""
    channel = crowd(3)
    MessageFactory(channel=channel, at=MONDAY + timedelta(minutes=30), text="The bad one, at 5.")
    model.always = lambda user: error(500) if "The bad one" in user else answer(DONE)
    for _ in range(8):
        others = ChannelFactory(workspace=channel.workspace)
        others.remember_from(to_micros(MONDAY))
        talk(others)
        clock.passes(channel, model, minutes=60, step=20)
    dead = Job.objects.get(state="dead")
    assert (dead.memory, dead.fault, dead.attempts) == (short(channel), "server_error", 5)
    assert short(others).head == 1


# -- reasoning models


def reasons(tokens: int) -> Callable[[Request], Response]:
    """Thinks for so many tokens before it answers; the limit cuts it off wherever it is."""

    def complete(request: Request) -> Response:
        if request.json["max_tokens"] < tokens + 20:
            return answer("<think>Let me see. ", "length")
        return answer(f"<think>{'hm ' * 9}</think>\n{GOOD}")

    return complete


@pytest.fixture
def thinker(httpserver: HTTPServer) -> ModelSummariser:
    """Thinks for 1,000 tokens before it answers."""
    httpserver.expect_request("/think/chat/completions").respond_with_handler(reasons(1_000))
    url = httpserver.url_for("/think")
    return ModelSummariser(api_key="k", base_url=url, model="thinker", timeout=PATIENCE)


@pytest.mark.slow
def test_a_reasoning_model_gets_room_for_its_thoughts(
    channel: Channel, httpserver: HTTPServer, thinker: ModelSummariser
) -> None:
    run_pass(channel.workspace, NOW, thinker)
    assert short(channel).current.content == GOOD.partition(" [")[0]
    limits = [request.json["max_tokens"] for request, _ in httpserver.log]
    assert limits == [300, 1300, 1500, 1500, 1300], "a long-term merge may take 500"
    endpoint = Endpoint.objects.get()
    assert (endpoint.thinking_tokens, endpoint.reasons) == (1_000, True)
    assert not Job.objects.filter(state="dead").exists()


def test_the_room_for_thoughts_is_reserved(
    channel: Channel, httpserver: HTTPServer, thinker: ModelSummariser
) -> None:
    Cap.objects.create(period=Cap.Period.DAY, tokens=1_600)
    report = run_pass(channel.workspace, NOW, thinker)
    assert [one["why"] for one in report.refusals] == ["over_cap"]
    assert len(httpserver.log) == 1
    assert ModelCall.objects.get().tokens == 107
