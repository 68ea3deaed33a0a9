"""The worker of a pass: its leases, saved replies and queries."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import Job, Memory, MemoryVersion
from memories.pipeline.generate import close as closing
from memories.pipeline.generate import work
from memories.pipeline.generate.failures import dead_letter
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.plan import plan_channel
from memories.pipeline.generate.report import Report
from memories.pipeline.generate.requests import RequestBuilder
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply, RequestStrategy
from tests.factories import MONDAY, ChannelFactory, make_channel_memory, make_job
from tests.pipeline.conversations import Scribe, hours, remembering, talk
from tests.pipeline.current import short
from tests.processes import PATIENCE

pytestmark = pytest.mark.django_db

NOW = MONDAY + timedelta(days=30)
MINUTES = timedelta(minutes=3)


class Noting(Scribe):
    """Adds a word to each message, so that no line is a copy."""

    def summarise(self, request, strategy=RequestStrategy.WHOLE):
        reply = super().summarise(request, strategy)
        if not request.messages:
            return reply
        return replace(reply, text=reply.text.replace("- ", "- noted "))


def test_the_lease_of_a_long_call_is_renewed(channel, monkeypatch, settings):
    settings.MEMORYHUB_LEASE = 0.3
    talk(channel, 3)
    renewed = threading.Event()
    renew = Job.renew

    def look(job, now, lease):
        assert renew(job, now, lease)
        job.refresh_from_db()
        assert job.lease_until == now + lease
        renewed.set()

    monkeypatch.setattr(Job, "renew", look)
    run_pass(channel.workspace, MONDAY + hours(3), Noting(lambda request: renewed.wait(PATIENCE)))
    assert renewed.is_set()
    assert not Job.objects.exclude(state="done", attempts=1).exists()


def test_no_model_reads_a_private_channel_for_the_workspace(workspace):
    """The channel may have been opted in when the job was made."""
    private = ChannelFactory(workspace=workspace, kind="private")
    version = make_channel_memory(channel=private, texts=["- a secret"]).current
    memory = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
    job = make_job(memory=memory, inputs=[version])
    requests = []
    run_pass(workspace, MONDAY + hours(3), Noting(requests.append))
    job.refresh_from_db()
    assert (job.state, requests) == ("superseded", [])


@pytest.mark.slow
def test_after_a_database_error_while_closing_there_is_no_second_call(channel, monkeypatch):
    talk(channel, 3)
    scribe = Noting()

    def refused(*args, **options):
        raise OperationalError("deadlock detected")

    with monkeypatch.context() as broken:
        broken.setattr(closing, "write_version", refused)
        report = run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert report.errors
    assert Job.objects.get().state == "replied"
    Job.objects.update(retry_at=None)
    run_pass(channel.workspace, MONDAY + hours(3), scribe)
    assert sum(not request.additions for request in scribe.requests) == 1
    assert short(channel).head == 1


@pytest.mark.slow
def test_a_saved_reply_is_parsed_with_its_own_references(channel, monkeypatch):
    """A reference counts only if the request had it when the reply was made."""
    channel.workspace.change_settings({"history_enabled": False})
    messages = talk(channel, 3)
    plan_channel(channel.pk, MONDAY + hours(1))
    job = Job.objects.get()
    job.claim(timezone.now(), timedelta(minutes=3))
    job_request = RequestBuilder(channel.workspace).build(job)
    reply = Reply("- noted that step one is done [1, 4]", "stop", "scribe", "scribe-1", calls=1)
    job.save_reply(reply, job_request.sources)
    talk(channel, 3, MONDAY + timedelta(minutes=30))  # stored late
    report = run_pass(channel.workspace, MONDAY + hours(1), Noting())
    assert report.errors == []
    version = MemoryVersion.objects.filter(memory=short(channel)).order_by("number").first()
    assert [list(line.sources.all()) for line in version.lines.all()][0][:1] == [messages[0]]


@pytest.mark.slow
def test_saving_a_reply_is_retried_after_a_database_error(channel, monkeypatch):
    talk(channel, 10)
    save, failed = Job.save_reply, []

    def fails_once(job, *given):
        if not failed:
            failed.append(job.pk)
            raise OperationalError("deadlock detected")
        return save(job, *given)

    monkeypatch.setattr(Job, "save_reply", fails_once)
    scribe = Noting()
    run_pass(channel.workspace, NOW, scribe)
    Job.objects.update(retry_at=None)
    run_pass(channel.workspace, NOW, scribe)
    assert short(channel).head == 1
    segments = [request for request in scribe.requests if request.messages]
    assert len(segments) == 1


def test_running_calls_are_saved_when_an_error_ends_the_pass(workspace, monkeypatch, settings):
    settings.MEMORYHUB_HEARTBEAT = 0.2
    broken = threading.Event()
    for _ in range(3):
        talk(remembering(workspace), 10)
    look, failed = work.JobRunner._renew_leases, []

    def fails_once(worker):
        if not failed:
            failed.append(1)
            broken.set()
            raise OperationalError("the connection is closed")
        look(worker)

    monkeypatch.setattr(work.JobRunner, "_renew_leases", fails_once)
    scribe = Noting(before=lambda request: broken.wait(PATIENCE))
    with pytest.raises(OperationalError):
        run_pass(workspace, NOW, scribe)
    assert Job.objects.filter(state="claimed").count() == 0


def test_a_late_reply_prevents_the_dead_letter(channel):
    """The last worker was frozen past its lease, and saved the reply before the dead letter."""
    talk(channel, 10)
    plan_channel(channel.pk, NOW)
    Job.objects.update(attempts=4)
    frozen = Job.objects.get()
    assert frozen.claim(timezone.now() - 2 * MINUTES, MINUTES)
    seen = Job.objects.exhausted(timezone.now()).with_memory().get()
    reply = Reply("- All is done. [1]", "stop", "m", "p", calls=1)
    assert frozen.save_reply(reply, [[1]])
    dead_letter(seen, timezone.now())
    assert Job.objects.get().state == "replied"


def test_a_bad_reply_does_not_count_as_a_lost_worker(channel):
    talk(channel, 10)
    plan_channel(channel.pk, NOW)
    row = Job.objects.get()
    assert row.claim(timezone.now(), MINUTES)
    assert row.save_reply(Reply("", "stop", "m", "p", calls=1), [[1]])
    worker = work.JobRunner(channel.workspace, Noting(), Report("x", NOW), lambda: None)
    worker._close_replies()
    row.refresh_from_db()
    assert (row.state, row.fault) == ("waiting", "blank")
    assert row.workers_lost == 0


def test_waiting_replies_need_a_constant_number_of_queries(channel):
    def queries(count):
        for day in range(count):
            talk(channel, 10, MONDAY + timedelta(days=day))
        plan_channel(channel.pk, NOW)
        rows = list(Job.objects.filter(state="waiting").order_by("segment__number"))
        for row in rows[1:]:
            assert row.claim(timezone.now(), MINUTES)
            assert row.save_reply(Reply("- x [1]", "stop", "m", "p", calls=1), [[1]])
        worker = work.JobRunner(channel.workspace, Noting(), Report("x", NOW), lambda: None)
        with CaptureQueriesContext(connection) as captured:
            assert worker._close_replies() == 0
        return len(captured)

    assert queries(20) < 10


@pytest.mark.sqlite("PostgreSQL gets BEGIN with the first statement")
@pytest.mark.django_db(transaction=True)
def test_an_interrupt_after_begin_does_not_lose_a_running_call(workspace, monkeypatch):
    """The transaction has begun in SQLite, but not in Django."""
    for _ in range(2):
        talk(remembering(workspace), 10)
    both, saving, receive = threading.Barrier(2), [], work.JobRunner._receive

    def note_and_receive(worker, future):
        saving.append(future)
        receive(worker, future)

    def interrupt(execute, sql, *arguments):
        result = execute(sql, *arguments)
        if sql.startswith("BEGIN") and len(saving) == 1:
            saving.append(None)
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(work.JobRunner, "_receive", note_and_receive)
    scribe = Noting(before=lambda request: both.wait(PATIENCE))
    with pytest.raises(KeyboardInterrupt), connection.execute_wrapper(interrupt):
        run_pass(workspace, NOW, scribe)
    # The reply that was being saved is lost.
    assert sorted(Job.objects.values_list("state", flat=True)) == ["claimed", "replied"]
