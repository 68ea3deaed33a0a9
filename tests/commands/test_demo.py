"""`manage.py demo` creates everything that the pages of the demo show."""

import io
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db.models import Count
from django.utils import timezone

from memories.demo import create
from memories.models import (
    Job,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Reader,
    Segment,
    User,
    Workspace,
)
from memories.pipeline.generate.passes import run_pass
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import Origin
from tests.demo.make_demo import MadeDemo


def run() -> str:
    out = io.StringIO()
    call_command("demo", "--no-serve", stdout=out, stderr=io.StringIO())
    return out.getvalue()


def rows() -> dict[str, int]:
    models = (Workspace, Message, Segment, Job, Memory, MemoryVersion, Note, User)
    return {model.__name__: model._default_manager.count() for model in models}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_make_demo_creates_everything_once(demo: MadeDemo) -> None:
    """`make demo` of the README prints the address and the account."""
    assert f"The demo: http://localhost:{urlsplit(demo.url).port}" in demo.output
    assert "Sign in as demo, password demo" in demo.output
    assert "Traceback" not in demo.output
    assert "/logout/" in demo.page
    assert 'href="/w/demo/' in demo.page
    assert "operator, password demo" in demo.output
    assert User.objects.get(username="operator").is_operator
    user = User.objects.get(username="demo")
    assert not user.is_superuser

    workspace = Workspace.objects.get(slug="demo")
    check_messages(workspace)
    check_reader(workspace, user)
    check_memories(workspace)
    check_versions_by_people(workspace, user)
    notes = Note.objects.in_use(workspace).visible_to(Reader.of(user))
    assert notes.count() == len(create.NOTES) == 3

    report = run_pass(workspace, timezone.now())
    assert not report.made, "the next pass has no work"
    assert len(report.waiting) >= 2, "and reports the open segments"

    memory = long_term(workspace, "general")
    memory.revise("- mine", by=user, based_on=memory.head)
    before = rows()
    assert "Sign in as demo" in run()
    assert rows() == before
    memory.refresh_from_db()
    assert memory.current is not None
    assert memory.current.content == "- mine"


def long_term(workspace: Workspace, name: str) -> Memory:
    return Memory.objects.of_channel(workspace.channels.get(name=name), MemoryType.LONG_TERM)


def check_messages(workspace: Workspace) -> None:
    messages = Message.objects.filter(channel__workspace=workspace)
    assert messages.count() >= 540
    assert messages.filter(state=Message.State.DELETED).count() >= 3
    assert not messages.filter(state=Message.State.MISSING).exists()
    waiting = Message.objects.waiting().filter(channel__workspace=workspace)
    assert waiting.values("channel").distinct().count() >= 2, "some segments are still open"


def check_reader(workspace: Workspace, user: User) -> None:
    reader = Reader.of(user)
    assert workspace.role_of(reader) == "editor"
    visible = workspace.channels.visible_to(reader)
    assert visible.filter(kind="private").count() == 1
    assert workspace.channels.filter(kind="private").count() == 2


def check_memories(workspace: Workspace) -> None:
    memories = Memory.objects.filter(workspace=workspace).annotate(n=Count("versions"))
    short = memories.filter(scope=MemoryScope.CHANNEL, memory_type=MemoryType.SHORT_TERM, n__gte=5)
    assert short.count() >= 2
    for scope, memory_type in (
        (MemoryScope.WORKSPACE, MemoryType.LONG_TERM),
        (MemoryScope.CHANNEL, MemoryType.LONG_TERM),
        (MemoryScope.THREAD, MemoryType.SHORT_TERM),
    ):
        assert memories.filter(scope=scope, memory_type=memory_type, n__gte=1).exists()
    assert not Job.objects.of_workspace(workspace).unfinished().exists()
    assert not Job.objects.of_workspace(workspace).filter(state="dead").exists()


def check_versions_by_people(workspace: Workspace, user: User) -> None:
    versions = MemoryVersion.objects.filter(memory__workspace=workspace, author=user)
    assert versions.filter(origin=Origin.PERSON).count() == 2
    restored = versions.get(origin=Origin.RESTORE)
    assert restored.restored_from is not None
    assert restored.content == restored.restored_from.content
    launch = long_term(workspace, "launch")
    assert launch.current is not None
    assert launch.current.origin == Origin.MODEL
    assert create.ADDED_LINE in launch.current.content, "later merges keep the line of a person"


@pytest.mark.slow
@pytest.mark.django_db
def test_a_stopped_command_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(create, "_create_editor", stop)
    before = rows()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert rows() == before
    assert not list(Path(settings.MEMORYHUB_VAR).glob("demo-*"))
