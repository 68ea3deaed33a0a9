"""Each fault of a model in a whole pass, with the real client against a local endpoint."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from memories.llm import ModelSummariser
from memories.models import AuditEvent, Budget, Channel, Endpoint, Job, Memory, ModelCall, Workspace
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.report import Report
from memories.rules.generate.circuit_breaker import MAX_FAILURES
from memories.rules.generate.faults import MAX_ATTEMPTS
from memories.rules.memory.identity import MemoryType
from memories.templatetags.reading import reason_words
from tests.factories import MONDAY, MessageFactory, PersonFactory, UserFactory, WorkspaceFactory
from tests.pipeline import conversations
from tests.pipeline.current import short
from tests.pipeline.generate.model_server import GOOD, ModelServer, answer, error, summariser_at
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(hours=3)
GOOD_TEXT = GOOD.partition(" [")[0]
FIRST = "- Step 0 is done. [1]"  # for channels with a single message


@pytest.fixture
def model(httpserver: HTTPServer) -> ModelServer:
    return ModelServer(httpserver)


@pytest.fixture
def channel() -> Channel:
    return crowd(1)


def crowd(channels: int, messages: int = 10) -> Channel:
    """Make channels with messages in one workspace, and return the first.

    They are private: no job merges them into the memories of the workspace.
    """
    workspace = WorkspaceFactory(settings={"thread_memories": False})
    made = [add_channel(workspace, messages) for _ in range(channels)]
    return made[0]


def add_channel(workspace: Workspace, messages: int = 10) -> Channel:
    channel = conversations.remembering(workspace, kind=Channel.Kind.PRIVATE)
    talk(channel, messages)
    return channel


def talk(channel: Channel, messages: int = 10, at: timedelta = timedelta(0)) -> None:
    author = PersonFactory(workspace=channel.workspace)
    for minute in range(messages):
        MessageFactory(
            channel=channel,
            author=author,
            at=MONDAY + at + timedelta(minutes=minute),
            text=f"Step {minute} is done.",
        )


def one_pass(channel: Channel, model: ModelServer) -> Report:
    return run_pass(channel.workspace, NOW, model.summariser)


def passes_until_done(channel: Channel, model: ModelServer, now: datetime) -> None:
    """Run passes until no job is unfinished, nine at most."""
    for _ in range(9):
        run_pass(channel.workspace, now, model.summariser)
        if not Job.objects.unfinished().exists():
            return
        make_all_due()


def make_all_due() -> None:
    now = timezone.now()
    Job.objects.filter(retry_at__gt=now).update(retry_at=now)
    Endpoint.objects.filter(retry_at__gt=now).update(retry_at=now)
    Endpoint.objects.filter(open_until__gt=now).update(open_until=now)


TOO_LONG = "- It is the team's channel and its people speak here about the launch of it. " * 60
JAPANESE = (
    "- 公開に向けた手順はすべて終わっていて、みんなで確認しながら進めることができました。[1, 10]\n"
    "- 次の確認は来週に行うことになり、それまでに残りの点を見直しておきます。[3]"
)
WITHOUT_CHOICES = Response('{"choices": [], "usage": {"prompt_tokens": 9}}', 200)
WITHOUT_CHOICES.mimetype = "application/json"
WAITS, REFUSED, RETRIES = "waits", "refused by the endpoint", "retries at once"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "fault", "becomes", "attempts"),
    [
        pytest.param(error(500), "server_error", WAITS, 0, id="500"),
        pytest.param(Response("<html>", 200), "malformed", WAITS, 0, id="a proxy's page"),
        pytest.param(error(200), "empty", WAITS, 0, id="a gateway's error with status 200"),
        pytest.param(WITHOUT_CHOICES, "empty", WAITS, 0, id="a usage without choices"),
        pytest.param(error(429), "rate_limited", REFUSED, 0, id="429 without a time"),
        pytest.param(
            error(429, Retry_After="90"), "rate_limited", REFUSED, 0, id="429 with Retry-After"
        ),
        pytest.param(error(429, "insufficient_quota"), "out_of_credit", REFUSED, 0, id="no credit"),
        pytest.param(error(401), "unauthorised", REFUSED, 0, id="401"),
        pytest.param(error(404), "not_found", REFUSED, 0, id="no such model"),
        pytest.param(answer(""), "blank", RETRIES, 1, id="empty"),
        pytest.param(answer("- half a", "length"), "length", RETRIES, 1, id="cut off"),
        pytest.param(answer("", "content_filter"), "content_filter", RETRIES, 1, id="filter"),
        pytest.param(answer("I'm sorry, I can't."), "refusal", RETRIES, 1, id="said refusal"),
        pytest.param(answer(TOO_LONG), "too_long", RETRIES, 1, id="three times too long"),
    ],
)
def test_each_fault_leads_to_the_step_of_its_policy(
    channel: Channel, model: ModelServer, reply: Response, fault: str, becomes: str, attempts: int
) -> None:
    """Nothing of a bad reply is saved, and the next step is the policy's."""
    model.script = [reply]
    report = one_pass(channel, model)
    assert any(fault in text for text in report.errors), report.errors
    job = short(channel).jobs.get()
    if becomes == RETRIES:
        assert job.state == "done"
        assert job.attempts == attempts + 1
        assert short(channel).current.content == GOOD_TEXT
        return
    assert (job.fault, job.state) == (fault, "waiting")
    assert job.attempts == attempts
    assert job.retry_at > timezone.now()
    assert short(channel).head == 0
    assert len(model.prompts) == 1
    refusals = [refusal["why"] for refusal in report.refusals]
    if becomes == REFUSED:
        assert refusals == ["rate_limited" if fault == "rate_limited" else "needs_person"]
        assert one_pass(channel, model).calls == 0
        assert len(model.prompts) == 1
    else:
        assert refusals == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "fault", "attempts"),
    [
        pytest.param(error(400), "bad_request", 1, id="400"),
        pytest.param(answer(""), "blank", 5, id="empty"),
        pytest.param(answer("- Steps 0 to", "length"), "length", None, id="cut off, halves too"),
        pytest.param(answer("", "content_filter"), "content_filter", None, id="all refused"),
    ],
)
def test_a_permanent_fault_ends_as_a_dead_letter(
    channel: Channel, model: ModelServer, reply: Response, fault: str, attempts: int | None
) -> None:
    """``attempts`` is None where the request is also sent in parts."""
    model.reply = lambda user: reply
    passes_until_done(channel, model, NOW)
    assert one_pass(channel, model).calls == 0
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("dead", fault)
    if attempts is not None:
        assert job.attempts == len(model.prompts) == attempts
    assert short(channel).head == 0
    assert job.retry() is True


@pytest.mark.slow
def test_a_failed_merge_keeps_the_old_text(channel: Channel, model: ModelServer) -> None:
    one_pass(channel, model)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    before = memory.current.content
    talk(channel, at=timedelta(hours=6))
    model.reply = lambda user: answer("", "length")
    passes_until_done(channel, model, MONDAY + timedelta(hours=10))
    memory.refresh_from_db()
    assert (memory.current.content, memory.head) == (before, 1)
    assert short(channel).jobs.filter(state="dead").count() == 1


@pytest.mark.slow
def test_a_rate_limit_stops_all_calls_and_costs_no_attempt(
    channel: Channel, model: ModelServer
) -> None:
    second = crowd(1)  # in another workspace
    model.script = [error(429, Retry_After="90")]
    one_pass(channel, model)
    endpoint = Endpoint.objects.get()
    wait = endpoint.retry_at - timezone.now()
    assert timedelta(seconds=80) < wait <= timedelta(seconds=90)
    assert one_pass(second, model).calls == 0
    make_all_due()
    one_pass(channel, model)
    one_pass(second, model)
    assert short(channel).jobs.get().attempts == 1
    assert short(second).jobs.get().attempts == 1


@pytest.mark.slow
def test_a_pass_waits_for_a_short_rate_limit(channel: Channel, model: ModelServer) -> None:
    model.script = [error(429, Retry_After="0.2")]
    report = one_pass(channel, model)
    assert report.left == 0
    assert short(channel).head == 1


@pytest.mark.slow
def test_five_failures_open_the_breaker_and_an_answered_trial_call_closes_it(
    model: ModelServer, settings: Iterator[None]
) -> None:
    settings.MEMORYHUB_LLM_CONCURRENCY = 1
    channel = crowd(MAX_FAILURES + 1, messages=1)
    model.reply = lambda user: error(503)
    report = one_pass(channel, model)
    assert len(model.prompts) == MAX_FAILURES
    assert [refusal["why"] for refusal in report.refusals] == ["breaker_open"]
    assert report.left == MAX_FAILURES + 1
    assert one_pass(channel, model).calls == 0
    assert len(model.prompts) == MAX_FAILURES

    make_all_due()
    one_pass(channel, model)
    assert len(model.prompts) == MAX_FAILURES + 1, "half open: one trial call, which failed"

    make_all_due()
    model.reply = lambda user: answer(FIRST)
    one_pass(channel, model)
    make_all_due()
    assert one_pass(channel, model).left == 0
    assert Endpoint.objects.get().failures == 0


@pytest.mark.slow
def test_after_a_wrong_key_calls_stop_until_a_person_resumes(
    channel: Channel, model: ModelServer
) -> None:
    good, model.reply = model.reply, lambda user: error(401)
    one_pass(channel, model)
    Job.objects.update(retry_at=None)
    one_pass(channel, model)
    assert len(model.prompts) == 1
    model.reply = good
    anna = UserFactory(username="anna")
    assert Endpoint.objects.get().resume(anna) is True
    assert Endpoint.objects.get().resume(anna) is False
    event = AuditEvent.objects.get(action="endpoint_resume")
    assert (event.actor, event.details) == ("anna", {"fault": "unauthorised"})
    one_pass(channel, model)
    assert short(channel).head == 1


@pytest.mark.slow
def test_another_key_has_a_closed_breaker(channel: Channel, model: ModelServer) -> None:
    model.script = [error(401)]
    one_pass(channel, model)
    Job.objects.update(retry_at=None)
    run_pass(channel.workspace, NOW, summariser_at(model.url, key="another"))
    assert short(channel).head == 1
    assert not Endpoint.objects.filter(fingerprint__contains="another").exists()


@pytest.mark.slow
def test_an_error_costs_nothing_and_a_lost_answer_costs_its_reservation(
    channel: Channel, model: ModelServer, httpserver: HTTPServer
) -> None:
    model.script = [error(500)]
    one_pass(channel, model)
    refused = ModelCall.objects.get()
    assert (refused.tokens, refused.fault) == (0, "server_error")
    assert refused.ended_at is not None
    impatient = summariser_at(httpserver.url_for("/slow"), timeout=0.2)

    given_up = threading.Event()

    def answer_too_late(request: Request) -> Response:
        given_up.wait(PATIENCE)
        return answer()

    httpserver.expect_request("/slow/chat/completions").respond_with_handler(answer_too_late)
    make_all_due()
    try:
        run_pass(channel.workspace, NOW, impatient)
    finally:
        given_up.set()
    lost = ModelCall.objects.order_by("pk").last()
    assert (lost.fault, lost.prompt_tokens) == ("timeout", 0)
    assert lost.tokens > 300


def steps_in(user: str) -> list[int]:
    """The numbers of the messages that a prompt shows."""
    return [step for step in range(10) if f"Step {step} is done." in user and "<<messages" in user]


def answer_by_steps(model: ModelServer) -> None:
    """Answer a prompt with messages by their steps, and the combination of parts as a whole."""

    def answered(user: str) -> Response:
        if steps := steps_in(user):
            first, last = steps[0], steps[-1]
            return answer(f"- Steps {first} to {last} are done. [{first + 1}, {last + 1}]")
        return answer("- All steps are done. [1, 2]")

    model.reply = answered


@pytest.mark.slow
def test_a_prompt_that_is_too_long_is_sent_in_halves_and_combined(
    channel: Channel, model: ModelServer
) -> None:
    answer_by_steps(model)
    by_steps = model.reply
    model.reply = lambda user: (
        error(400, "context_length_exceeded") if len(steps_in(user)) > 6 else by_steps(user)
    )
    report = one_pass(channel, model)
    assert any("context_too_long" in text for text in report.errors), report.errors
    assert report.left == 0
    job, version = short(channel).jobs.get(), short(channel).current
    assert (job.state, job.strategy, job.attempts) == ("done", "split", 2)
    assert version.content == "- All steps are done."
    shown = [steps for user in model.prompts if (steps := steps_in(user))]
    assert shown[:3] == [list(range(10)), [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    cited = {message.text for message in version.lines.get().sources.all()}
    assert cited == {f"Step {step} is done." for step in (0, 4, 5, 9)}
    assert version.source_message_count == 10


@pytest.mark.slow
def test_a_request_whose_answer_was_cut_off_twice_is_sent_in_halves(
    channel: Channel, model: ModelServer
) -> None:
    answer_by_steps(model)
    model.script = [answer("- Steps 0 to", "length"), answer("- Steps 0 to", "length")]
    report = one_pass(channel, model)
    assert [text.rpartition(": ")[2] for text in report.errors] == ["length", "length"]
    job = short(channel).jobs.get()
    assert (job.state, job.strategy, job.attempts) == ("done", "split", 3)
    assert [steps_in(user) for user in model.prompts[:4]] == [
        *[list(range(10))] * 2,
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
    assert short(channel).current.content == "- All steps are done."


@pytest.mark.slow
def test_an_answer_in_another_language_is_retried(model: ModelServer) -> None:
    workspace = WorkspaceFactory(settings={"thread_memories": False})
    channel = conversations.remembering(workspace, kind=Channel.Kind.PRIVATE)
    for minute in range(10):
        MessageFactory(
            channel=channel,
            at=MONDAY + timedelta(minutes=minute),
            text=f"We have finished step {minute} of the launch and all of it looks good to me.",
        )
    model.script = [answer(JAPANESE)]
    report = one_pass(channel, model)
    assert [text.rpartition(": ")[2] for text in report.errors] == ["wrong_language"]
    job = short(channel).jobs.get()
    assert (job.state, job.attempts) == ("done", 2)
    assert short(channel).current.content == GOOD_TEXT


@pytest.mark.slow
def test_a_connection_that_breaks_in_the_answer_counts_as_paid(channel: Channel) -> None:

    class Breaks(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"id": ')

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Breaks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        report = run_pass(channel.workspace, NOW, summariser_at(url))
        server.shutdown()
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("waiting", "connection"), report.errors
    assert job.attempts == 0
    assert ModelCall.objects.get().tokens > 300
    assert short(channel).head == 0


def test_a_failed_connection_costs_nothing(channel: Channel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        unused = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    report = run_pass(channel.workspace, NOW, summariser_at(unused))
    job = short(channel).jobs.get()
    assert (job.state, job.fault) == ("waiting", "connection"), report.errors
    assert ModelCall.objects.get().tokens == 0


@pytest.mark.slow
def test_a_refused_message_is_left_out_and_counted_in_the_trigger(
    channel: Channel, model: ModelServer
) -> None:
    model.reply = lambda user: (
        answer("", "content_filter")
        if "Step 7" in user and "<<messages" in user
        else answer("- Steps are done. [1]")
    )
    report = one_pass(channel, model)
    assert report.left == 0
    version = short(channel).current
    assert version.trigger["left_out"] == 1
    assert "refused to read 1 message" in reason_words(version.trigger)
    assert version.job.strategy == "isolate"


@pytest.mark.slow
def test_small_talk_with_a_refused_message_is_nothing(channel: Channel, model: ModelServer) -> None:
    channel.messages.update(text="Good morning to all of you!")
    channel.messages.filter(pk=channel.messages.in_order().last().pk).update(text="Bad one.")
    model.reply = lambda user: (
        answer("", "content_filter") if "Bad one" in user else answer("NOTHING")
    )
    one_pass(channel, model)
    assert channel.segments.get().outcome == "nothing"
    assert short(channel).jobs.get().state == "done"


@pytest.mark.slow
def test_a_rate_limited_request_in_parts_uses_up_its_attempts(
    workspace: Workspace, model: ModelServer
) -> None:
    """Each attempt pays its first parts again."""
    channel = conversations.remembering(workspace, kind=Channel.Kind.PRIVATE)
    conversations.talk(channel, 10, words="The long step " + "of many words " * 300)
    model.summariser._input_limit = 2_000
    paid = []

    def always(user: str) -> Response:
        paid.append(1)
        return error(429, Retry_After="0") if len(paid) % 4 == 0 else answer()

    model.reply = always
    for _ in range(8):
        one_pass(channel, model)
        make_all_due()
    job = short(channel).jobs.get()
    assert (job.state, job.fault, job.attempts) == ("dead", "rate_limited", MAX_ATTEMPTS)
    assert job.calls == 3 * MAX_ATTEMPTS


@pytest.mark.slow
def test_jobs_do_not_wait_long_after_an_answered_trial_call(
    workspace: Workspace, model: ModelServer
) -> None:
    for _ in range(3):
        add_channel(workspace, messages=1)
    model.reply = lambda user: answer(FIRST)
    run_pass(workspace, MONDAY + timedelta(minutes=1), model.summariser)  # makes the endpoint's row
    a_moment_ago = timezone.now() - timedelta(seconds=1)
    Endpoint.objects.update(failures=5, times_opened=1, open_until=a_moment_ago)
    run_pass(workspace, NOW, model.summariser)
    assert Endpoint.objects.get().failures == 0
    paused = Job.objects.filter(retry_at__gt=timezone.now() + timedelta(seconds=60))
    assert not paused.exists()


class Clock:
    """Moves the real clock forward, so that paused jobs become due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = timedelta(0)
        real = timezone.now
        monkeypatch.setattr(timezone, "now", lambda: real() + self.ahead)

    def passes(self, channel: Channel, model: ModelServer, minutes: int, step: int) -> None:
        """Run a pass every few minutes."""
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
in_small = ("503",)  # it ends by itself
nightly = pytest.mark.nightly("its faults are tried one by one in the other tests")


@pytest.mark.slow
@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(outage, id=name, marks=() if name in in_small else nightly)
        for name, outage in OUTAGES.items()
    ],
)
def test_all_jobs_are_done_after_an_outage_of_an_hour(
    model: ModelServer, clock: Clock, settings: Any, outage: Callable[[str], Response]
) -> None:
    settings.MEMORYHUB_LLM_CONCURRENCY = 2
    channel = crowd(3, messages=1)
    budget = Budget.objects.create(period=Budget.Period.MONTH, tokens=100_000)
    model.summariser._timeout = 0.2
    model.reply = outage
    clock.passes(channel, model, minutes=60, step=10)
    assert Job.objects.exclude(state="waiting").count() == 0
    assert not Job.objects.filter(attempts__gt=0).exists()
    assert len(model.prompts) <= 5 + 2 + 60 / 10 + 4, (
        "five in a row, then a trial call now and then"
    )
    model.summariser._timeout = PATIENCE
    model.reply = lambda user: answer(FIRST)
    clock.passes(channel, model, minutes=30, step=10)
    assert not Job.objects.unfinished().exists()
    assert not Job.objects.filter(state="dead").exists()
    assert [short(row).head for row in channel.workspace.channels.all()] == [1, 1, 1]
    tokens, _micros = ModelCall.objects.counting_against(budget, timezone.now().date()).committed()
    assert tokens <= budget.tokens


@pytest.mark.slow
def test_a_job_that_fails_alone_is_given_up(model: ModelServer, clock: Clock) -> None:
    """One of its messages makes the server fail; other jobs go first."""
    channel = crowd(1, messages=1)
    MessageFactory(channel=channel, at=MONDAY + timedelta(minutes=30), text="The bad one, at 5.")
    model.reply = lambda user: error(500) if "The bad one" in user else answer(FIRST)
    for _ in range(7):
        others = add_channel(channel.workspace, messages=1)
        clock.passes(channel, model, minutes=20, step=20)
    dead = Job.objects.get(state="dead")
    assert (dead.memory, dead.fault, dead.attempts) == (short(channel), "server_error", 5)
    assert short(others).head == 1


def reasons(tokens: int) -> Callable[[Request], Response]:
    """Return a handler that reasons for this many tokens; the limit may cut it off."""

    def complete(request: Request) -> Response:
        if request.json["max_tokens"] < tokens + 20:
            return answer("<think>Let me see. ", "length")
        return answer(f"<think>{'hm ' * 9}</think>\n{GOOD}")

    return complete


@pytest.fixture
def thinker(httpserver: HTTPServer) -> ModelSummariser:
    httpserver.expect_request("/think/chat/completions").respond_with_handler(reasons(1_000))
    return summariser_at(httpserver.url_for("/think"))


@pytest.mark.slow
def test_a_reasoning_model_gets_tokens_for_its_reasoning(
    channel: Channel, httpserver: HTTPServer, thinker: ModelSummariser
) -> None:
    run_pass(channel.workspace, NOW, thinker)
    assert short(channel).current.content == GOOD_TEXT
    limits = [request.json["max_tokens"] for request, _ in httpserver.log]
    assert limits == [300, 1300, 1500], "a long-term merge may take 500"
    endpoint = Endpoint.objects.get()
    assert (endpoint.thinking_tokens, endpoint.reasons) == (1_000, True)
    assert not Job.objects.filter(state="dead").exists()


def test_tokens_for_reasoning_are_reserved(
    channel: Channel, httpserver: HTTPServer, thinker: ModelSummariser
) -> None:
    Budget.objects.create(period=Budget.Period.DAY, tokens=1_600)
    report = run_pass(channel.workspace, NOW, thinker)
    assert [refusal["why"] for refusal in report.refusals] == ["over_budget"]
    assert len(httpserver.log) == 1
    assert ModelCall.objects.get().tokens == 107
