"""A pass with the real openai client against a local endpoint: what is asked, saved, and refused."""

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone
from werkzeug import Request, Response

from memories.llm import ModelSummariser
from memories.models import Endpoint as Endpoint_
from memories.models import Job, Memory
from memories.pipeline.generate.passes import run_pass
from memories.rules.generate.probe import ProbeResult
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY, ChannelFactory, MessageFactory
from tests.pipeline.current import short
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(hours=3)


@pytest.fixture
def channel():
    # Calls are counted: one for the segment, one for each long-term memory.
    settings = {"thread_memories": False, "workspace_short_term": False}
    channel = ChannelFactory(workspace__settings=settings, name="launch")
    channel.remember_from(to_micros(MONDAY))
    for minute in range(10):
        MessageFactory(
            channel=channel,
            at=MONDAY + timedelta(minutes=minute),
            author__name="mika",
            text=f"Step {minute} is done.",
        )
    return channel


def answer(text, finish="stop"):
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "test-1"}
    return Response(
        json.dumps(body | {"choices": [choice], "usage": usage}), 200, mimetype="application/json"
    )


def error(status, code=None, headers=None):
    body = json.dumps({"error": {"message": "no", "type": "x", "code": code}})
    return Response(body, status, headers, mimetype="application/json")


class Endpoint:
    """Answers with what `says` makes of the user message; keeps every request."""

    def __init__(self, httpserver):
        self.asked = []
        self.says = lambda user: answer("- Steps 0 to 9 are done. [1 10]")
        httpserver.expect_request("/v1/chat/completions").respond_with_handler(self.handle)
        self.summariser = ModelSummariser(
            api_key="k", base_url=httpserver.url_for("/v1"), model="test-1", timeout=PATIENCE
        )

    def handle(self, request: Request) -> Response:
        system, user = (message["content"] for message in request.json["messages"])
        self.asked.append((system, user))
        return self.says(user)


@pytest.fixture
def endpoint(httpserver):
    return Endpoint(httpserver)


@pytest.mark.slow
def test_a_reply_becomes_lines_with_sources(channel, endpoint):
    report = run_pass(channel.workspace, NOW, endpoint.summariser)
    assert (report.calls, report.prompt_tokens, report.completion_tokens) == (3, 300, 21)
    version = short(channel).current
    assert version.content == "- Steps 0 to 9 are done."
    assert [m.text for m in version.lines.get().sources.order_by("micros")] == [
        "Step 0 is done.",
        "Step 9 is done.",
    ]
    assert (version.job.model, version.job.prompt_tokens) == ("test-1", 100)
    assert version.job.prompt_version.startswith("channel-short-")


def test_messages_are_lines_in_the_workspaces_zone(channel, endpoint):
    channel.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    run_pass(channel.workspace, NOW, endpoint.summariser)
    _, user = endpoint.asked[0]
    assert "Asia/Tokyo" in user
    assert re.search(r"^1 \[2026-01-05 18:00\] mika: Step 0 is done\.$", user, re.MULTILINE)


@pytest.mark.slow
def test_references_go_with_segments_and_merges(channel, endpoint):
    run_pass(channel.workspace, NOW, endpoint.summariser)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    endpoint.asked.clear()
    endpoint.says = lambda user: answer(f"- Answer number {len(endpoint.asked)}. [1]")
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), endpoint.summariser)
    (_, segment), (_, merge), (_, workspace) = endpoint.asked
    assert "<<reference: workspace memory" in segment and "<<reference: previous memory" in segment
    assert "<<reference: workspace memory" in merge and "<<existing memory" in merge
    assert "<<reference" not in workspace and "added: #launch" in workspace


@pytest.mark.slow
def test_a_merge_that_changes_nothing_makes_no_version_and_no_further_call(channel, endpoint):
    run_pass(channel.workspace, NOW, endpoint.summariser)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    merged = endpoint.says
    endpoint.says = lambda user: answer("- One more. [1]") if "<<messages" in user else merged(user)
    report = run_pass(channel.workspace, MONDAY + timedelta(hours=9), endpoint.summariser)
    assert report.made == {"channel short_term": 1} and report.skipped == {"unchanged": 1}
    assert Memory.objects.of_channel(channel, MemoryType.LONG_TERM).head == 1


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["a guest in it", "who is in it is unknown"])
def test_a_channel_with_guests_is_shown_nothing_they_may_not_read(channel, endpoint, known):
    run_pass(channel.workspace, NOW, endpoint.summariser)
    guest = channel.workspace.people.create(slack_id="UG", name="guest", is_guest=True)
    if known:
        channel.memberships.create(person=guest)
        channel.set_members_known(NOW)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    endpoint.asked.clear()
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), endpoint.summariser)
    assert not any("workspace memory" in user for _, user in endpoint.asked)


def test_nothing_worth_keeping_is_covered_without_a_version(channel, endpoint):
    channel.messages.update(text="Good morning to all of you!")
    endpoint.says = lambda user: answer("NOTHING")
    report = run_pass(channel.workspace, NOW, endpoint.summariser)
    assert report.skipped == {"nothing to remember": 1}
    assert (short(channel).head, channel.segments.get().outcome) == (0, "nothing")
    assert run_pass(channel.workspace, NOW, endpoint.summariser).calls == 0


def test_nothing_is_no_answer_to_messages_that_say_something(channel, endpoint):
    """Rule 8: asked again in the other form; then the offline highlights stand in, and say so."""
    merged = endpoint.says
    endpoint.says = lambda user: answer("NOTHING") if "<<messages" in user else merged(user)
    run_pass(channel.workspace, NOW, endpoint.summariser)
    (_, full), (_, simple) = endpoint.asked[:2]
    assert "NOTHING" not in full + simple
    assert "\n1 [" in full and "\n1 [" not in simple
    version = short(channel).current
    assert "Step 9 is done." in version.content
    job = version.job
    assert (job.model, job.attempts, job.prompt_tokens) == ("offline", 2, 200)
    assert channel.segments.get().outcome == "remembered"


def test_mostly_quotes_are_asked_again_and_then_kept(channel, endpoint):
    copies = "\n".join(f"- Step {n} is done. [{n + 1}]" for n in range(4))
    merged = endpoint.says
    endpoint.says = lambda user: answer(copies) if "<<messages" in user else merged(user)
    report = run_pass(channel.workspace, NOW, endpoint.summariser)
    assert report.skipped["fault: copied"] == 1
    assert short(channel).current.content.count("\n") == 3
    assert short(channel).jobs.get().attempts == 2


def test_a_model_that_copies_in_both_forms_is_not_asked_twice_for_ever(channel, endpoint):
    copies = "\n".join(f"- Step {n} is done. [{n + 1}]" for n in range(4))
    merged = endpoint.says
    endpoint.says = lambda user: answer(copies) if "<<messages" in user else merged(user)
    asked_again = []
    for day in range(4):
        for minute in range(10 if day else 0):
            at = MONDAY + timedelta(days=day, minutes=minute)
            MessageFactory(
                channel=channel, at=at, author__name="mika", text=f"Step {minute} is done."
            )
        report = run_pass(channel.workspace, NOW + timedelta(days=day), endpoint.summariser)
        asked_again.append(report.skipped["fault: copied"])
    assert asked_again == [1, 1, 0, 0]
    assert short(channel).head == 4
    known = Endpoint_.objects.get()
    known.record_findings(ProbeResult(True, True, True, False, 4_000, None), NOW)
    known.refresh_from_db()
    assert known.copied_jobs == 0, "a probe forgets it"


@pytest.mark.slow
def test_a_failed_segment_is_tried_again_and_a_dead_one_on_demand(channel, endpoint):
    good, endpoint.says = endpoint.says, lambda user: error(500)
    run_pass(channel.workspace, NOW, endpoint.summariser)
    Job.objects.update(not_before=timezone.now())
    endpoint.says = lambda user: error(400)
    run_pass(channel.workspace, NOW, endpoint.summariser)
    assert (dead := Job.objects.get()).state == "dead"
    endpoint.says = good
    assert run_pass(channel.workspace, NOW, endpoint.summariser).calls == 0
    dead.retry()
    run_pass(channel.workspace, NOW, endpoint.summariser)
    assert short(channel).current.content == "- Steps 0 to 9 are done."


@pytest.mark.slow
def test_a_given_up_segment_lets_later_ones_pass_and_comes_after_them(channel, endpoint):
    for minute in range(5):
        MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5, minutes=minute))
    good = endpoint.says
    more = answer("- More was said. [1]")
    endpoint.says = lambda user: error(400) if "Step 0" in user else more
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), endpoint.summariser)
    assert short(channel).versions.get().segment.number == 2
    endpoint.says = good
    Job.objects.get(state="dead").retry()
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), endpoint.summariser)
    numbers = short(channel).versions.order_by("number").values_list("number", "segment__number")
    assert list(numbers) == [(1, 2), (2, 1)]
    assert short(channel).current.number == 1, "the newest period is what readers get"


def test_a_saved_reply_is_used_not_paid_again(channel, endpoint, monkeypatch):
    """A worker that dies between the reply and the version leaves the reply on the row."""
    from memories.pipeline.generate import work

    def die(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(work, "close", die)
        with pytest.raises(KeyboardInterrupt):
            run_pass(channel.workspace, NOW, endpoint.summariser)
    assert Job.objects.get().state == "replied"
    endpoint.asked.clear()
    run_pass(channel.workspace, NOW, endpoint.summariser)
    assert short(channel).head == 1
    assert not any("Step 0 is done." in user and "<<messages" in user for _, user in endpoint.asked)
