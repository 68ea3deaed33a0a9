"""Conversations for passes, what changes in them meanwhile, and a summariser that repeats them."""

from datetime import timedelta

from memories.llm import OfflineSummariser
from memories.models import Memory, Segment
from memories.pipeline.generate.requests import RequestBuilder
from memories.rules.generate.summariser import Reply, RequestStrategy
from memories.rules.ingest.timestamps import to_micros
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
    """A channel that is remembered from MONDAY on."""
    channel = ChannelFactory(workspace=workspace, **given)
    channel.remember_from(to_micros(MONDAY))
    return channel


def talk(channel, count, begin=MONDAY, words="Step"):
    """So many messages of one person, a minute apart."""
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
    """The operations that remove all existing lines: the newest news settles them."""
    newest = request.additions[-1].lines[-1].ref
    return [f"- L{line.ref} [{newest}]" for line in request.existing]


class Scribe(OfflineSummariser):
    """Repeats all that it is shown, a line each; ``before`` is called with each request."""

    name = "scribe"

    def __init__(self, before=lambda request: None):
        self.before = before
        self.asked = []

    def prompt_version(self, request):
        return "scribe-1"

    def summarise(self, request, way=RequestStrategy.WHOLE):
        self.asked.append(request)
        self.before(request)
        added = [line for one in request.additions for line in one.lines]
        lines = [*request.existing, *added, *request.messages]
        return Reply(
            text="\n".join(f"- {line.text} [{line.ref}]" for line in lines),
            finish_reason="stop",
            model=self.name,
            prompt_version="scribe-1",
            calls=1,
        )


def edit(message, text="It was all different.", edited_at=MONDAY + timedelta(days=9)):
    """As the storing code does it."""
    message.refresh_from_db()
    message.text, message.edited_ts = text, f"{to_micros(edited_at) // 1_000_000}.000000"
    message.save()
    made_stale(message)


def delete(message):
    """As the storing code does it."""
    message.refresh_from_db()
    message.purge()
    message.save()
    made_stale(message)


def made_stale(message):
    pks = [pk for pk in (message.segment_id, message.thread_segment_id) if pk]
    Segment.objects.filter(pk__in=pks).update(stale=True)


def during(monkeypatch, happens, wanted=lambda job: True):
    """Call ``happens`` once, between the request of a matching job and its answer."""
    question = RequestBuilder.build
    done = []

    def ask(asker, job):
        asked = question(asker, job)
        if not done and wanted(job):
            done.append(happens())
        return asked

    monkeypatch.setattr(RequestBuilder, "build", ask)
    return done


def is_merge_of(memory):
    return lambda job: job.memory_id == memory.pk


def threaded(replies, **settings):
    """A remembered channel with one thread: (channel, root, replies)."""
    channel = remembering(WorkspaceFactory(settings=settings))
    root = MessageFactory(channel=channel, at=MONDAY, text="Which region should we use?")
    made = [
        make_reply(root=root, at=MONDAY + timedelta(minutes=i + 1), text=f"Reason {i} is good.")
        for i in range(replies)
    ]
    return channel, root, made


def of_thread(root):
    return Memory.objects.with_current().of_thread(root.channel, root.ts)
