"""Conversations for passes, changes in them, and a summariser that repeats them."""

from datetime import timedelta

from memories.llm import OfflineSummariser
from memories.models import Channel, Memory, Segment
from memories.pipeline.generate.requests import RequestBuilder
from memories.rules.ingest.timestamps import to_micros
from memories.rules.summariser import Reply, RequestStrategy, SummariserError
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    WorkspaceFactory,
    make_reply,
)


def hours(n):
    return timedelta(hours=n)


def remembering(workspace, **given):
    """Return a channel whose start mark is MONDAY."""
    channel = ChannelFactory(workspace=workspace, **given)
    channel.remember_from(to_micros(MONDAY))
    return channel


def talk(channel, count, begin=MONDAY, words="Step"):
    """Return messages of one person, a minute apart."""
    author = PersonFactory(workspace=channel.workspace)
    return [
        MessageFactory(
            channel=channel,
            author=author,
            at=begin + timedelta(minutes=i),
            text=f"{words} {begin:%d.%H}.{i} is done.",
        )
        for i in range(count)
    ]


def removals(request):
    """Return operations that remove all existing lines, with the newest line as source."""
    newest = request.additions[-1].lines[-1].ref
    return [f"- L{line.ref} [{newest}]" for line in request.existing]


class Scribe(OfflineSummariser):
    """Repeats each line of a request. ``before`` is called with each request."""

    name = "scribe"

    def __init__(self, before=lambda request: None):
        self.before = before
        self.requests = []

    def prompt_version(self, request):
        return "scribe-1"

    def summarise(self, request, strategy=RequestStrategy.WHOLE):
        self.requests.append(request)
        self.before(request)
        added = [line for addition in request.additions for line in addition.lines]
        lines = [*request.existing, *added, *request.messages]
        return Reply(
            text="\n".join(f"- {line.text} [{line.ref}]" for line in lines),
            finish_reason="stop",
            model=self.name,
            prompt_version="scribe-1",
            calls=1,
        )


def no_merges(request):
    """Fail each merge. For ``Scribe(no_merges)``."""
    if request.additions:
        raise SummariserError("server_error", "no")


def edit(message, text="It was all different.", edited_at=MONDAY + timedelta(days=9)):
    message.refresh_from_db()
    message.text, message.edited_ts = text, f"{to_micros(edited_at) // 1_000_000}.000000"
    message.save()
    mark_stale(message)


def delete(message):
    message.refresh_from_db()
    message.purge()
    message.save()
    mark_stale(message)


def mark_stale(message):
    pks = [pk for pk in (message.segment_id, message.thread_segment_id) if pk]
    Segment.objects.filter(pk__in=pks).update(stale=True)


def during(monkeypatch, happens, matches=lambda job: True):
    """Call ``happens`` once, between the request of a matching job and its reply."""
    build = RequestBuilder.build
    done = []

    def build_and_change(builder, job):
        job_request = build(builder, job)
        if not done and matches(job):
            done.append(happens())
        return job_request

    monkeypatch.setattr(RequestBuilder, "build", build_and_change)
    return done


def is_merge_of(memory):
    return lambda job: job.memory_id == memory.pk


def threaded(replies, **settings):
    """Return a private channel with one thread: (channel, root, replies).

    No job merges its memories into those of the workspace.
    """
    workspace = WorkspaceFactory(settings=settings)
    channel = remembering(workspace, kind=Channel.Kind.PRIVATE)
    root = MessageFactory(channel=channel, at=MONDAY, text="Which region should we use?")
    made = [
        make_reply(root=root, at=MONDAY + timedelta(minutes=i + 1), text=f"Reason {i} is good.")
        for i in range(replies)
    ]
    return channel, root, made


def of_thread(root):
    return Memory.objects.with_current().of_thread(root.channel, root.ts)
