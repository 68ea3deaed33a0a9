"""`manage.py demo`: the demo workspace with everything that its pages are to show."""

import io
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db.models import Count
from django.utils import timezone

from memories.demo import making
from memories.models import (
    Generation,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Reader,
    Segment,
    User,
    Workspace,
)
from memories.pipeline.passes import run_pass
from memories.rules.lines import Origin
from memories.rules.memory import MemoryScope, MemoryType

pytestmark = pytest.mark.django_db


def run() -> str:
    out = io.StringIO()
    call_command("demo", stdout=out, stderr=io.StringIO())
    return out.getvalue()


def rows() -> dict[str, int]:
    models = (Workspace, Message, Segment, Generation, Memory, MemoryVersion, Note, User)
    return {model.__name__: model._default_manager.count() for model in models}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_demo_shows_everything_and_is_made_once() -> None:
    told = run()
    assert settings.MEMORYHUB_URL in told
    user = authenticate(username="demo", password="demo")
    assert isinstance(user, User)
    assert not user.is_superuser

    workspace = Workspace.objects.get(slug="demo")
    _messages(workspace)
    _login(workspace, user)
    _memories(workspace)
    _versions_by_people(workspace, user)
    notes = Note.objects.in_use(workspace).visible_to(Reader.of(user))
    assert notes.count() == len(making.NOTES) == 3
    assert not list(Path(settings.MEMORYHUB_VAR).glob("demo-*"))

    report = run_pass(workspace, timezone.now())
    assert not report.made, "a pass after it has nothing left to do"
    assert len(report.waiting) >= 2, "and says what the open windows wait for"

    memory = _long_term(workspace, "general")
    memory.revise("- mine", by=user, based_on=memory.head)
    before = rows()
    assert run() == told
    assert rows() == before
    memory.refresh_from_db()
    assert memory.current is not None
    assert memory.current.content == "- mine"


def _long_term(workspace: Workspace, name: str) -> Memory:
    return Memory.objects.of_channel(workspace.channels.get(name=name), MemoryType.LONG_TERM)


def _messages(workspace: Workspace) -> None:
    messages = Message.objects.filter(channel__workspace=workspace)
    assert messages.count() >= 540
    assert messages.filter(state=Message.State.DELETED).count() >= 3
    assert not messages.filter(state=Message.State.MISSING).exists()
    waiting = Message.objects.waiting().filter(channel__workspace=workspace)
    assert waiting.values("channel").distinct().count() >= 2, "some windows are still open"


def _login(workspace: Workspace, user: User) -> None:
    reader = Reader.of(user)
    assert workspace.role_of(reader) == "editor"
    seen = workspace.channels.visible_to(reader)
    assert seen.filter(kind="private").count() == 1
    assert workspace.channels.filter(kind="private").count() == 2


def _memories(workspace: Workspace) -> None:
    memories = Memory.objects.filter(workspace=workspace).annotate(n=Count("versions"))
    short = memories.filter(scope=MemoryScope.CHANNEL, memory_type=MemoryType.SHORT_TERM, n__gte=5)
    assert short.count() >= 2
    for scope, memory_type in (
        (MemoryScope.WORKSPACE, MemoryType.LONG_TERM),
        (MemoryScope.CHANNEL, MemoryType.LONG_TERM),
        (MemoryScope.THREAD, MemoryType.SHORT_TERM),
    ):
        assert memories.filter(scope=scope, memory_type=memory_type, n__gte=1).exists()
    assert not Generation.objects.of_workspace(workspace).unfinished().exists()
    assert not Generation.objects.of_workspace(workspace).filter(state="dead").exists()


def _versions_by_people(workspace: Workspace, user: User) -> None:
    versions = MemoryVersion.objects.filter(memory__workspace=workspace, author=user)
    assert versions.filter(origin=Origin.PERSON).count() == 2
    restored = versions.get(origin=Origin.RESTORE)
    assert restored.restored_from is not None
    assert restored.content == restored.restored_from.content
    launch = _long_term(workspace, "launch")
    assert launch.current is not None
    assert launch.current.origin == Origin.MODEL
    assert making.ADDED_LINE in launch.current.content, "later merges keep a person's line"


def test_stopped_half_way_it_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(making._Demo, "sign_up", stop)
    before = rows()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert rows() == before
    assert not list(Path(settings.MEMORYHUB_VAR).glob("demo-*"))
