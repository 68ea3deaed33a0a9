"""The archive of a memory: its readers, the restore of a line, and links to it."""

import re
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from memories.models import AuditEvent, Line, Memory, MemoryVersion
from memories.pipeline.redaction import forget
from memories.pipeline.search import indexing as index_of
from memories.rules.generate.reply import parse_reply
from memories.rules.memory.lines import strip_bullet
from memories.rules.summariser import Addition, MemoryLine, Reply
from memories.views.memory.archive import PAGE_SIZE
from tests.factories import MONDAY, MessageFactory, make_version
from tests.llm.requests import long
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

ARCHIVED = "- The beta shipped on 2 October"
SECRET = "- Tom asked for a raise in May"


@pytest.fixture
def archive(cast: Cast) -> Cast:
    """The long-term memory of each channel has one archived line."""
    for memory, text in ((cast.memory, ARCHIVED), (cast.private_memory, SECRET)):
        channel = memory.channel
        assert channel is not None
        _archive(memory, text, sources=channel.messages.in_order()[:2])
        memory.refresh_from_db()
    return cast


def _archive(memory: Memory, *texts: str, **given: object) -> None:
    """Archive lines as a merge does: the next version lacks them."""
    content = memory.current.content
    until = MONDAY + timedelta(hours=2)
    base = make_version(memory=memory, text="\n".join([content, *texts]), until=until, **given)
    base.lines.filter(text__in=texts).update(outcome=Line.Outcome.ARCHIVED, kind="event", at_us=7)
    make_version(memory=memory, text=content, until=until, base=base)
    memory.refresh_from_db()


def page(cast: Cast, name: str, memory: Memory, query: str = "") -> str:
    response = cast.clients[name].get(reverse("archive-index", args=[memory.pk]) + query)
    assert response.status_code == 200
    return str(response.content.decode())


def restore(cast: Cast, name: str = "editor", **given: object):
    memory = Memory.objects.with_current().get(pk=cast.memory.pk)
    line = memory.archived_lines().first()
    seen = {
        "line": line.pk if line else 0,
        "based_on": memory.current.number,
        "revision": memory.current.revision,
    }
    return cast.clients[name].post(reverse("archive-restore", args=[memory.pk]), seen | given)


@pytest.mark.parametrize(
    ("name", "public", "private"),
    [
        ("member", 200, 404),
        ("insider", 200, 200),
        ("guest", 200, 404),
        ("outsider", 404, 404),
        ("operator", 200, 404),
        ("nobody", 302, 302),
    ],
)
def test_the_archive_has_the_readers_of_its_memory(
    archive: Cast, name: str, public: int, private: int
) -> None:
    for memory, status in ((archive.memory, public), (archive.private_memory, private)):
        path = reverse("archive-index", args=[memory.pk])
        assert archive.clients[name].get(path).status_code == status
        assert archive.clients[name].get(memory_path(memory)).status_code == status


def memory_path(memory: Memory) -> str:
    assert memory.channel is not None
    return f"/w/team/c/{memory.channel.slack_id}/"


def test_the_page_of_the_memory_counts_archived_lines(archive: Cast, cast: Cast) -> None:
    shown = archive.clients["member"].get(memory_path(archive.memory)).content.decode()
    assert f'<a href="/m/{archive.memory.pk}/archive/">Archive (1)</a>' in shown
    archive.memory.archived_lines().update(outcome="")
    shown = archive.clients["member"].get(memory_path(archive.memory)).content.decode()
    assert "/archive/" not in shown


def test_no_merge_archives_a_restored_line_again(archive: Cast) -> None:
    restore(archive)
    archive.memory.refresh_from_db()
    existing = [
        MemoryLine(n, strip_bullet(line.text), line.is_protected, at_us=1)
        for n, line in enumerate(archive.memory.current.line_values(), 1)
    ]
    news = Addition("", [MemoryLine(99, "Cleo joined the team", at_us=2)])
    request = long(existing=existing, additions=[news], operations=True, max_tokens=1)
    reading = parse_reply(Reply("+ Cleo joined the team [99]", "stop", "m", "p"), request)
    assert reading.archived, "there was no room"
    assert strip_bullet(ARCHIVED) in [line.text for line in reading.lines]


def test_a_line_is_restored_as_it_was(archive: Cast) -> None:
    memory = archive.memory
    [old] = memory.archived_lines().as_values()
    assert "The beta shipped" in page(archive, "editor", memory)
    assert restore(archive).status_code == 302
    memory.refresh_from_db()
    [line] = [v for v in memory.current.line_values() if v.text == ARCHIVED]
    assert line == replace(old, pinned=True) and line.sources
    assert memory.current.content.endswith(ARCHIVED)
    assert (memory.current.origin, memory.current.audience) == ("restore", "scope")
    assert not memory.archived_lines().exists()
    assert AuditEvent.objects.get(action="line_restore").actor == "editor"
    shown = archive.clients["editor"].get(f"/v/{memory.current_id}/").content.decode()
    assert "restored a line from the archive" in shown


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [
        ("member", {}, 403),
        ("guest", {}, 403),
        ("outsider", {}, 404),
        ("nobody", {}, 302),
        ("editor", {"based_on": 1}, 409),
        ("editor", {"revision": 9}, 409),
        ("editor", {"line": 0}, 404),
        ("editor", {"line": "x"}, 404),
    ],
)
def test_refused_restores(archive: Cast, name: str, given: dict[str, object], status: int) -> None:
    assert restore(archive, name, **given).status_code == status
    assert archive.memory.archived_lines().count() == 1
    assert ARCHIVED not in Memory.objects.get(pk=archive.memory.pk).current.content


def test_a_line_in_a_newer_version_leaves_the_archive(archive: Cast) -> None:
    memory = archive.memory
    old = memory.versions.get(lines__text=ARCHIVED)
    memory.restore(old, by=None, based_on=memory.current.number)
    assert not memory.archived_lines().exists()
    assert old.lines.get(text=ARCHIVED).outcome == Line.Outcome.RETURNED
    shown = archive.clients["member"].get(f"/v/{old.pk}/").content.decode()
    assert "and restored later" in shown


def test_redacted_lines_leave_the_archive(archive: Cast) -> None:
    memory = archive.memory
    for message in archive.messages[:2]:
        forget.forget_message(archive.public, message.ts, by=None)
    assert not memory.archived_lines().exists()
    assert "beta" not in page(archive, "editor", memory)


def test_pages_and_links_to_a_line(archive: Cast, django_assert_max_num_queries) -> None:
    memory = archive.memory
    with django_assert_max_num_queries(40) as few:
        page(archive, "editor", memory)
    _archive(memory, *(f"- step {n} of the plan" for n in range(PAGE_SIZE)))
    memory.archived_lines().filter(text=ARCHIVED).update(at_us=1)
    with django_assert_max_num_queries(len(few.captured_queries)):
        first = page(archive, "editor", memory)
    assert first.count('<li id="line-') == PAGE_SIZE and "The beta shipped" not in first
    oldest = memory.archived_lines().get(text=ARCHIVED)
    path = reverse("archive-index", args=[memory.pk])
    response = archive.clients["editor"].get(f"{path}?line={oldest.pk}")
    assert response["Location"] == f"{path}?page=2#line-{oldest.pk}"
    assert "The beta shipped" in page(archive, "editor", memory, "?page=2")


@pytest.mark.postgres("full-text search")
@pytest.mark.parametrize(
    ("name", "typed", "count"),
    [
        ("member", "beta in:archive", 1),
        ("member", "beta", 1),
        ("member", "raise in:archive", 0),
        ("insider", "raise in:archive", 1),
        ("outsider", "beta in:archive", None),
        ("member", "launch in:archive", 0),  # another line of the same version has the text
        ("member", "beta -monday in:archive", 1),
        ("member", "beta -shipped in:archive", 0),
        ("member", "beta by:model in:archive", 1),
        ("member", "beta by:person in:archive", 0),
    ],
)
def test_the_search_finds_it(archive: Cast, name: str, typed: str, count: int | None) -> None:
    index_of.index_pending()
    response = archive.clients[name].get(archive.path("search/"), {"q": typed})
    if count is None:
        assert response.status_code == 404
        return
    html = response.content.decode()
    assert len(re.findall(r"/m/\d+/archive/\?line=", html)) == count


@pytest.mark.parametrize(("typed", "is_folded"), [("beta in:archive", False), ("beta", True)])
def test_the_search_folds_it_behind_other_results(
    archive: Cast, typed: str, is_folded: bool
) -> None:
    MessageFactory(channel=archive.public, author=archive.author, text="the beta is out")
    index_of.index_pending()
    html = archive.clients["member"].get(archive.path("search/"), {"q": typed}).content.decode()
    assert ("Show archived lines</summary>" in html) is is_folded
    assert "The <mark>beta</mark> shipped" in html


def context(*more: str) -> str:
    out = StringIO()
    call_command("context", "--workspace", "team", "--channel", "launch", *more, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("budget", ["0", "4000"])
def test_a_context_has_it_on_request(archive: Cast, budget: str) -> None:
    """Last in its channel; the page gives the same text."""
    assert "The beta" not in context("--budget", budget)
    text = context("--budget", budget, "--with-archive")
    assert text.index("We launch on Monday") < text.index("### Archive") < text.index("The beta")
    assert text.index("The beta") < text.index("# Short-term memory")
    assert "raise" not in text
    query = {"channel": "C0PUBLIC", "budget": budget, "archive": "on", "as": "bot"}
    page = archive.clients["member"].get(archive.path("context/download/"), query)
    at = timezone.now().isoformat()
    assert (
        page.content.decode().splitlines()
        == context("--budget", budget, "--with-archive", "--at", at).splitlines()
    )


def test_a_small_budget_drops_the_archive_first(archive: Cast) -> None:
    _archive(archive.memory, *(f"- step {n} of the plan of the beta" for n in range(60)))
    text = context("--budget", "200", "--with-archive")
    assert "We launch on Monday" in text and "step 59" not in context("--budget", "200")
    output = context("--budget", "200", "--with-archive", "--query", "when did the beta ship?")
    assert "The beta shipped" in output


def test_a_replaced_line_links_to_its_successor(archive: Cast) -> None:
    old = archive.memory.versions.get(lines__text=ARCHIVED)
    new = MemoryVersion.objects.get(base=old)
    member = archive.clients["member"]
    compared = member.get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert f"moved to the archive in v{new.number}" in compared
    old.lines.filter(text=ARCHIVED).update(outcome=Line.Outcome.SUPERSEDED, successor=1)
    link = f'<a href="/v/{new.pk}/#line-1">replaced in v{new.number}</a>'
    assert link in member.get(f"/v/{old.pk}/").content.decode()
    shown = member.get(f"/v/{new.pk}/").content.decode()
    assert f'<a href="/v/{new.pk}/#line-1">' in shown and 'id="line-1"' in shown
