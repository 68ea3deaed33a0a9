"""A pass with the real openai client against a local endpoint: its prompts and its versions."""

import re
from datetime import timedelta

import pytest

from memories.models import Endpoint, Job, Memory
from memories.pipeline.generate import work
from memories.pipeline.generate.passes import run_pass
from memories.rules.generate.probe import ProbeResult
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY, MessageFactory, PersonFactory
from tests.pipeline.current import short
from tests.pipeline.generate.model_server import ModelServer, answer, error

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(hours=3)


@pytest.fixture
def channel(channel):
    """A channel for which a pass makes a call for the segment and for each long-term memory."""
    talk(channel, MONDAY)
    return channel


def talk(channel, begin):
    author = PersonFactory(workspace=channel.workspace, name="mika")
    for minute in range(10):
        MessageFactory(
            channel=channel,
            author=author,
            at=begin + timedelta(minutes=minute),
            text=f"Step {minute} is done.",
        )


@pytest.fixture
def model(httpserver):
    return ModelServer(httpserver)


COPIES = "\n".join(f"- Step {n} is done. [{n + 1}]" for n in range(4))


def answer_segments(model, text):
    """Answer prompts with messages by this text, and merges as before."""
    merge_reply = model.reply
    model.reply = lambda user: answer(text) if "<<messages" in user else merge_reply(user)


@pytest.mark.slow
def test_a_reply_becomes_lines_with_sources(channel, model):
    report = run_pass(channel.workspace, NOW, model.summariser)
    assert (report.calls, report.prompt_tokens, report.completion_tokens) == (3, 300, 21)
    version = short(channel).current
    assert version.content == "- Steps 0 to 9 are done."
    assert [m.text for m in version.lines.get().sources.order_by("micros")] == [
        "Step 0 is done.",
        "Step 9 is done.",
    ]
    assert (version.job.model, version.job.prompt_tokens) == ("test-1", 100)
    assert version.job.prompt_version.startswith("channel-short-")


@pytest.mark.slow
def test_messages_have_the_time_of_the_workspaces_zone(channel, model):
    channel.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    run_pass(channel.workspace, NOW, model.summariser)
    user = model.prompts[0]
    assert "Asia/Tokyo" in user
    assert re.search(r"^1 \[2026-01-05 18:00\] mika: Step 0 is done\.$", user, re.MULTILINE)


@pytest.mark.slow
def test_prompts_of_segments_and_merges_have_references(channel, model):
    run_pass(channel.workspace, NOW, model.summariser)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    model.prompts.clear()
    model.reply = lambda user: answer(f"- Answer number {len(model.prompts)}. [1]")
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), model.summariser)
    segment, merge, workspace = model.prompts
    assert "<<reference: workspace memory" in segment and "<<reference: previous memory" in segment
    assert "<<reference: workspace memory" in merge and "<<existing memory" in merge
    assert "<<reference" not in workspace and "added: #launch" in workspace


@pytest.mark.slow
def test_a_merge_that_changes_nothing_makes_no_version(channel, model):
    run_pass(channel.workspace, NOW, model.summariser)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    answer_segments(model, "- One more. [1]")
    report = run_pass(channel.workspace, MONDAY + timedelta(hours=9), model.summariser)
    assert report.made == {"channel short_term": 1} and report.skipped == {"unchanged": 1}
    assert Memory.objects.of_channel(channel, MemoryType.LONG_TERM).head == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_known", [True, False], ids=["a guest in it", "who is in it is unknown"]
)
def test_the_prompt_of_a_channel_with_guests_lacks_the_workspace_memory(channel, model, is_known):
    run_pass(channel.workspace, NOW, model.summariser)
    guest = channel.workspace.people.create(slack_id="UG", name="guest", is_guest=True)
    if is_known:
        channel.memberships.create(person=guest)
        channel.set_members_known(NOW)
    MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5), text="One more.")
    model.prompts.clear()
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), model.summariser)
    assert not any("workspace memory" in user for user in model.prompts)


def test_an_empty_reply_makes_no_version(channel, model):
    channel.messages.update(text="Good morning to all of you!")
    model.reply = lambda user: answer("NOTHING")
    report = run_pass(channel.workspace, NOW, model.summariser)
    assert report.skipped == {"nothing to remember": 1}
    assert (short(channel).head, channel.segments.get().outcome) == (0, "nothing")
    assert run_pass(channel.workspace, NOW, model.summariser).calls == 0


@pytest.mark.slow
def test_a_reply_of_nothing_to_messages_with_content_is_retried(channel, model):
    """Rule 8: the other prompt form is tried, then the offline highlights replace the reply."""
    answer_segments(model, "NOTHING")
    run_pass(channel.workspace, NOW, model.summariser)
    full, simple = model.prompts[:2]
    assert "NOTHING" not in full + simple
    assert "\n1 [" in full and "\n1 [" not in simple
    version = short(channel).current
    assert "Step 9 is done." in version.content
    job = version.job
    assert (job.model, job.attempts, job.prompt_tokens) == ("offline", 2, 200)
    assert channel.segments.get().outcome == "remembered"


@pytest.mark.slow
def test_a_reply_of_copies_is_retried_once_and_then_saved(channel, model):
    answer_segments(model, COPIES)
    report = run_pass(channel.workspace, NOW, model.summariser)
    assert report.skipped["fault: copied"] == 1
    assert short(channel).current.content.count("\n") == 3
    assert short(channel).jobs.get().attempts == 2


@pytest.mark.slow
def test_copies_of_two_messages_are_saved_at_once(channel, model):
    channel.messages.filter(text__regex="Step [2-9]").delete()
    answer_segments(model, "- Step 0 is done. [1]\n- Step 1 is done. [2]")
    report = run_pass(channel.workspace, NOW, model.summariser)
    assert not report.skipped
    assert short(channel).jobs.get().attempts == 1


@pytest.mark.slow
def test_after_two_jobs_of_copies_in_both_forms_there_is_no_retry(channel, model):
    answer_segments(model, COPIES)
    retries = []
    for day in range(4):
        if day:
            talk(channel, MONDAY + timedelta(days=day))
        report = run_pass(channel.workspace, NOW + timedelta(days=day), model.summariser)
        retries.append(report.skipped["fault: copied"])
    assert retries == [1, 1, 0, 0]
    assert short(channel).head == 4
    endpoint = Endpoint.objects.get()
    endpoint.record_probe(ProbeResult(True, True, True, False, 4_000, None), NOW)
    endpoint.refresh_from_db()
    assert endpoint.copied_jobs == 0


@pytest.mark.slow
def test_a_dead_segment_does_not_stop_later_segments(channel, model):
    for minute in range(5):
        MessageFactory(channel=channel, at=MONDAY + timedelta(hours=5, minutes=minute))
    good = model.reply
    more = answer("- More was said. [1]")
    model.reply = lambda user: error(400) if "Step 0" in user else more
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), model.summariser)
    assert short(channel).versions.get().segment.number == 2
    model.reply = good
    Job.objects.get(state="dead").retry()
    run_pass(channel.workspace, MONDAY + timedelta(hours=9), model.summariser)
    numbers = short(channel).versions.order_by("number").values_list("number", "segment__number")
    assert list(numbers) == [(1, 2), (2, 1)]
    assert short(channel).current.number == 1, "the newest period is current"


@pytest.mark.slow
def test_a_saved_reply_of_a_dead_worker_is_closed_and_not_paid_again(channel, model, monkeypatch):
    def die(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(work, "close", die)
        with pytest.raises(KeyboardInterrupt):
            run_pass(channel.workspace, NOW, model.summariser)
    assert Job.objects.get().state == "replied"
    model.prompts.clear()
    run_pass(channel.workspace, NOW, model.summariser)
    assert short(channel).head == 1
    assert not any("Step 0 is done." in user and "<<messages" in user for user in model.prompts)
