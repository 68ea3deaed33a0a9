"""Workspaces with rows of each kind, and exports as plain values."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from memories.llm.offline import OfflineSummariser
from memories.models import (
    AuditEvent,
    Backfill,
    BackfillChannel,
    Budget,
    Channel,
    ChannelMember,
    Job,
    JobInput,
    Line,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    NoteVersion,
    Person,
    Reader,
    Segment,
    User,
    Workspace,
)
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.transfer.export.export_workspace import export_workspace
from memories.pipeline.transfer.export.import_workspace import import_workspace
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import RequestStrategy
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_reply,
    set_sync,
)

ODD = "\u202eぜんぶ\u200b \U000e0041 👨‍👩‍👧 \ufeff\u2028---\n- {x}: é"
NOW = MONDAY + timedelta(days=2)


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of an export by name."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None], *, honest: bool) -> None:
    """Change the files of an export. ``honest`` updates hashes and sizes in the manifest."""
    files = contents(path)
    change(files)
    if honest and files.get("manifest.json", b"").startswith(b"{"):
        manifest = json.loads(files["manifest.json"])
        for file in manifest["files"]:
            data = files.get(file["name"], b"")
            file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        files["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as zipped:
        for name, data in files.items():
            zipped.writestr(name, data)


def owner_of(workspace: Workspace) -> User:
    """Return a superuser who is a member of every channel."""
    user = User.objects.filter(username="owner").first()
    user = user or UserFactory(username="owner", is_superuser=True)
    person = PersonFactory(workspace=workspace, user=user, email="owner@example.org")
    for channel in workspace.channels.all():
        channel.people.add(person)
        channel.set_members_known(NOW)
    return user


def make_odd_workspace(**given: object) -> Workspace:
    """Channels of both kinds, threads, deletions, edits, pins, restores and odd characters."""
    workspace = WorkspaceFactory(
        name="ねこ\u202e社",
        domain="neko",
        settings={
            "workspace_short_term": True,
            "short_term_window_hours": 72,
            "message_threshold": 5,
            "time_zone": "Asia/Tokyo",
        },
        **given,
    )
    editor = UserFactory(username="海@example")
    MemberFactory(workspace=workspace, user=editor, role="editor")
    Budget.objects.create(workspace=workspace, period="day", tokens=10**12, money="12.5")
    people = PersonFactory.create_batch(3, workspace=workspace)
    bot = PersonFactory(workspace=workspace, is_bot=True, slack_id="B1", name=ODD)
    public = ChannelFactory(workspace=workspace, slack_id="C1", name="開発/../x", topic=ODD)
    private = ChannelFactory(
        workspace=workspace, slack_id="G1", name="secret", kind="private", members=people[:1]
    )
    ChannelFactory(workspace=workspace, slack_id="C2", name="quiet")
    set_sync(public, synced_ts="1767603600.000100", error_code="ratelimited")
    for channel in (public, private):
        channel.remember_from(to_micros(MONDAY))
        _talk(channel, [*people, bot])
    run_pass(workspace, NOW)
    _edit(public, editor)
    _edit(private, editor)
    run_pass(workspace, NOW)
    _notes(workspace, public, editor)
    NoteFactory(workspace=workspace, channel=private, content="secret note")
    _backfill(workspace, public, editor)
    workspace.refresh_from_db()
    return workspace


def _notes(workspace: Workspace, channel: Channel, editor: User) -> None:
    """A note, a note with versions of which one belongs to a channel, and a note in the trash."""
    NoteFactory(workspace=workspace, content=ODD, tags=["海", "x"], author=editor)
    note = NoteFactory(workspace=workspace, channel=channel, content=f"First. {ODD}", author=editor)
    note.rewrite("Second.", kind="pattern", by=editor)
    note.channel = None
    note.save_wording(by=None)
    note.restore(note.versions.get(number=1), by=editor, based_on=3, revision=2)
    note.set_flags(is_pinned=True, in_context=False, review_on=MONDAY.date())
    deleted = NoteFactory(workspace=workspace, content="in the trash")
    deleted.rewrite("still in the trash")
    deleted.remove(by=editor)
    message = channel.messages.filter(state="live", text__gt="").earliest("micros")
    NoteFactory(workspace=workspace, channel=channel, content="kept message", source=message)


def _talk(channel: Channel, people: list[Person]) -> None:
    for i in range(12):
        MessageFactory(
            channel=channel,
            author=people[i % len(people)],
            at=MONDAY + timedelta(minutes=7 * i),
            text=f"We decided to ship part {i} on Friday. {ODD if i % 3 else ''}",
            raw=json.dumps({"text": f"\x00 \ud800 {i}"}),
        )
    root = MessageFactory(channel=channel, at=MONDAY + timedelta(hours=2), text="Who takes it?")
    for i in range(6):
        make_reply(
            root=root, at=MONDAY + timedelta(hours=2, minutes=i + 1), text=f"Mika takes part {i}."
        )
    expired = channel.messages.order_by("micros")[2]
    expired.purge()
    expired.save()
    MessageFactory(channel=channel, ts="1767603600.5", author=None, username="hook", is_bot=True)
    MessageFactory(
        channel=channel,
        at=MONDAY + timedelta(seconds=1),
        is_notice=True,
        subtype="channel_join",
        text="",
    )
    MessageFactory(channel=channel, at=MONDAY - timedelta(days=9), text="long before")
    MessageFactory(channel=channel, at=NOW - timedelta(minutes=1), text="still open")


def _edit(channel: Channel, editor: User) -> None:
    memory = Memory.objects.with_current().of_channel(channel, MemoryType.LONG_TERM)
    first = memory.current
    assert first is not None
    text = f"- ours: {ODD.splitlines()[0]}\n\n{first.content}\n---"
    edited = memory.revise(text, by=editor, based_on=first.number)
    memory.pin(1, by=editor, based_on=edited.number)
    memory.restore(first, by=editor, based_on=edited.number)


def _backfill(workspace: Workspace, channel: Channel, editor: User) -> None:
    backfill = Backfill.objects.create(
        workspace=workspace,
        since_us=0,
        until_us=5,
        cap_tokens=10**12,
        author=editor,
        estimate={"tokens": [1, 2]},
    )
    BackfillChannel.objects.create(backfill=backfill, channel=channel, start_us_before=7)


def make_job(channel: Channel, **given: object) -> Job:
    """Return a waiting job of a new segment, as a pass creates it."""
    from memories.pipeline.generate.plan import plan_channel

    message = MessageFactory(channel=channel, at=MONDAY - timedelta(days=1), text="We ship.")
    channel.remember_from(message.micros)
    plan_channel(channel.pk, NOW)
    job = Job.objects.filter(memory__channel=channel).latest("pk")
    for name, value in given.items():
        setattr(job, name, value)
    job.save()
    return job


MODELS = (
    *(AuditEvent, Backfill, BackfillChannel, Budget, Channel, ChannelMember, Job),
    *(JobInput, Line, Member, Memory, MemoryVersion, Message, Note, NoteVersion),
    *(Person, Segment),
    *(User, Workspace),
)


def exported(workspace, path, user=None, **given):
    reader = Reader.of(user) if user else Reader.public()
    return export_workspace(workspace, reader, path, by=user, **given)


def row_counts():
    return {model.__name__: model.objects.count() for model in MODELS}


def moved(workspace, path, user):
    """Export, delete and import a workspace. The user signs in with Slack again."""
    exported(workspace, path, user)
    workspace.delete()
    return proven(import_workspace(path).workspace, user)


def proven(workspace, user):
    """Return the workspace after its person signed in with Slack. An export proves no link."""
    for person in workspace.people.filter(user=user):
        person.link(user, "slack", was=user)
    return workspace


class Forbidden(OfflineSummariser):
    """A summariser that fails if it is called."""

    def summarise(self, request, strategy=RequestStrategy.WHOLE):
        raise AssertionError("called again for text that is remembered already")
