"""One line: edited by an editor, disputed by a member, and the page that decides."""

from dataclasses import replace

import pytest
from django.http import HttpResponse

from memories.models import Line, Memory, Proposal
from memories.models.memory.new_version import NewVersion
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from memories.views.memory.line_display import hash_words
from tests.views.conftest import Cast


def path_of(cast: Cast, position: int = 0) -> str:
    return f"/m/{cast.memory.pk}/lines/{position}/edit/"


def send(
    cast: Cast, name: str = "editor", text: str = "We launch in May", **given: object
) -> HttpResponse:
    part = {"HX-Request": "true"} if given.pop("htmx", "") else {}
    values = {"text": text, "based_on": 2, "revision": 0, **given}
    return cast.clients[name].post(path_of(cast), values, headers=part)


def lines(cast: Cast) -> list[str]:
    cast.memory.refresh_from_db()
    return cast.memory.current.content.split("\n")


def channel_page(cast: Cast, name: str = "member") -> str:
    return cast.clients[name].get(cast.path("c/C0PUBLIC/")).content.decode()


@pytest.mark.slow
@pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
def test_an_editor_saves_a_line(cast: Cast, htmx: str) -> None:
    form = cast.clients["editor"].get(path_of(cast)).content.decode()
    assert "We launch on Monday</textarea>" in form
    response = send(cast, on="memory", htmx=htmx)
    assert lines(cast) == ["- We launch in May", "- Aya owns iOS"]
    if htmx:
        part = response.content.decode()
        assert part.startswith('<section id="memory"') and "Saved as version 3." in part
        assert 'id="memory-text-0" autofocus' in part
    else:
        assert response["Location"] == "/w/team/c/C0PUBLIC/#memory"
    assert "<b>editor</b>" in channel_page(cast)
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("since", ["", "7d"])
def test_an_edited_or_pinned_event_stays_in_sight(cast: Cast, since: str) -> None:
    cast.memory.current.lines.filter(position=0).update(kind="event", at_us=1)
    period = {"since": since} if since else {}
    page = cast.clients["editor"].get(cast.path("c/C0PUBLIC/"), period).content.decode()
    assert '<details class="month">' in page
    assert ("&amp;on=memory&amp;since=7d" in page) is bool(since)
    pin = {"pin": 0, "on": "memory", "revision": 0, **period}
    headers = {"HX-Request": "true"}
    path = f"/v/{cast.memory.current.pk}/pin/"
    pinned = cast.clients["editor"].post(path, pin, headers=headers)
    for response in (pinned, send(cast, on="memory", htmx="1", **period)):
        part = response.content.decode()
        assert '<details class="month" open>' in part
        assert ('<details class="fold" open>' in part) is bool(since)


def test_a_reason_and_a_source_are_kept(cast: Cast) -> None:
    message, secret = cast.messages[3], cast.private.messages.get()
    links = [
        f"https://team.slack.com/archives/C0PUBLIC/p{message.ts.replace('.', '')}",
        f"http://hub/w/team/c/C0PRIVATE/messages/?around={secret.ts}#msg-{secret.ts}",
    ]
    send(cast, reason="Tom said so", source=" ".join(links))
    proposal = Proposal.objects.get()
    assert (proposal.state, proposal.reason) == ("approved", "Tom said so")
    line = Line.objects.get(version=cast.memory.versions.get(number=3), position=0)
    assert list(line.sources.all()) == [message], "readers of #launch may not read the other one"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "A line cannot be empty."),
        (" - ", "A line cannot be empty."),
        ("We launch  on Monday", "The text is the same."),
        ("x" * 2001, "A text has at most 2000 characters."),
    ],
)
@pytest.mark.parametrize("name", ["editor", "member"])
def test_an_invalid_text_is_not_saved(cast: Cast, name: str, text: str, words: str) -> None:
    response = send(cast, name, text)
    assert response.status_code == 422 and words in response.content.decode()
    part = send(cast, name, text, htmx="1", on="memory")
    assert part["HX-Retarget"] == "closest .line-form"
    assert cast.memory.versions.count() == 2 and not Proposal.objects.exists()


def test_a_newer_version_is_a_conflict(cast: Cast) -> None:
    cast.memory.revise("- We launch never\n- Aya owns iOS", by=None, based_on=2)
    response = send(cast)
    page = response.content.decode()
    assert response.status_code == 409 and "Your text was kept" in page
    assert "We launch in May" in page and "We launch never" in page
    assert lines(cast)[0] == "- We launch never"


LAUNCH = hash_words("We launch on Monday")


def test_the_form_opens_for_the_words_of_the_clicked_line(cast: Cast) -> None:
    assert f'{path_of(cast)}?hash={LAUNCH}"' in channel_page(cast, "editor")
    cast.memory.revise("- Tom owns Android\n- We launch on Monday", by=None, based_on=2)
    path = f"{path_of(cast)}?hash={LAUNCH}"
    form = cast.clients["editor"].get(path).content.decode()
    assert "We launch on Monday</textarea>" in form and f'action="{path_of(cast, 1)}"' in form
    cast.memory.refresh_from_db()
    cast.memory.revise("- Tom owns Android\n- We launch in June", by=None, based_on=3)
    response = cast.clients["editor"].get(path)
    form = response.content.decode().partition("<main")[2]
    assert response.status_code == 409 and "This line changed" in form
    assert "<textarea" not in form and "Save line" not in form
    assert f'href="/m/{cast.memory.pk}/edit/"' in form


@pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
def test_after_a_rewrite_in_place_the_words_of_the_line_count(cast: Cast, htmx: str) -> None:
    version = cast.memory.current
    added = replace(version.line_values()[1], text="- Tom owns Android")
    rows = [added, *version.line_values()]
    rewritten = NewVersion(lines=rows, origin=Origin.MODEL, until_us=version.until_us)
    assert version.rewrite(rewritten)
    response = send(cast, hash=hash_words("Aya owns Windows"), htmx=htmx)
    form = response.content.decode()
    assert response.status_code == 409 and "We launch in May</textarea>" in form
    assert "Save line" not in form and "?draft=take" in form
    assert response.get("HX-Retarget", "") == ("closest .line-form" if htmx else "")
    editor = cast.clients["editor"].get(f"/m/{cast.memory.pk}/edit/?draft=take").content.decode()
    assert "- Aya owns iOS\n- We launch in May</textarea>" in editor
    send(cast, hash=LAUNCH, htmx=htmx)
    assert lines(cast) == ["- Tom owns Android", "- We launch in May", "- Aya owns iOS"]


@pytest.mark.slow
def test_a_member_proposes_and_an_editor_decides(cast: Cast) -> None:
    assert "This is wrong" in channel_page(cast) and "Disputed" not in channel_page(cast)
    send(cast, "member", reason="The date moved")
    response = send(cast, "member", reason="The date moved")  # a double click
    assert response["Location"] == "/w/team/c/C0PUBLIC/#memory"
    send(cast, "member", "We launch in June")
    assert lines(cast)[0] == "- We launch on Monday"
    assert channel_page(cast).count("Disputed") == 1
    first, second = Proposal.objects.order_by("pk")
    page = cast.clients["member"].get(f"/m/{cast.memory.pk}/proposal/").content.decode()
    assert "2 corrections need approval" in page and "The date moved" in page
    assert "Approve" not in page
    assert (
        "2 corrections need approval"
        in cast.clients["editor"].get(cast.path("catch-up/")).content.decode()
    )
    assert decide(cast, first, "approve", text="We launch on 1 May").status_code == 302
    assert lines(cast)[0] == "- We launch on 1 May"
    assert "<b>member</b>" in channel_page(cast)
    page = cast.clients["editor"].get(f"/m/{cast.memory.pk}/proposal/").content.decode()
    assert "does not have this line any more" in page
    assert decide(cast, second, "approve", based_on=2).status_code == 409
    assert decide(cast, second, "reject").status_code == 302
    assert decide(cast, second, "reject").status_code == 409
    assert lines(cast)[0] == "- We launch on 1 May"
    assert cast.clients["editor"].get(f"/m/{cast.memory.pk}/proposal/").status_code == 404


def decide(
    cast: Cast, proposal: Proposal, word: str, name: str = "editor", **given: object
) -> HttpResponse:
    cast.memory.refresh_from_db()
    seen = {"based_on": cast.memory.current.number, "revision": cast.memory.current.revision}
    path = f"/m/{cast.memory.pk}/proposal/{proposal.pk}/"
    return cast.clients[name].post(path, seen | {"do": word} | given)


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 422), ("x" * 2_001, 422), ("We launch on 1 May", 409)],
)
def test_a_typed_text_that_is_not_saved_stays_on_the_page(
    cast: Cast, text: str, status: int
) -> None:
    line = cast.memory.current.lines.get(position=0)
    proposal = Proposal.objects.propose(cast.memory.current, line, "We launch in May")
    response = decide(cast, proposal, "approve", text=text, based_on=0)
    assert response.status_code == status
    page = response.content.decode()
    assert ("Your text was not saved:" in page) == bool(text)
    assert not text or f"{text}</textarea>" in page
    proposal.refresh_from_db()
    assert proposal.state == "open"


@pytest.mark.slow
def test_readers_alone_may_act(cast: Cast) -> None:
    line = cast.memory.current.lines.get(position=0)
    proposal = Proposal.objects.propose(cast.memory.current, line, "We launch in May")
    for name, status in {"guest": 403, "outsider": 404}.items():
        assert cast.clients[name].get(path_of(cast)).status_code == status, name
        assert send(cast, name).status_code == status, name
    assert "This is wrong" not in channel_page(cast, "guest")
    assert decide(cast, proposal, "approve", "member").status_code == 403
    assert decide(cast, proposal, "approve", "outsider").status_code == 404
    assert cast.clients["editor"].get(path_of(cast, 9)).status_code == 404
    hidden = f"/m/{cast.private_memory.pk}/lines/0/edit/"
    assert cast.clients["editor"].get(hidden).status_code == 404


def test_a_line_of_the_newest_segment_is_edited_on_a_page(cast: Cast) -> None:
    short = Memory.objects.of_channel(cast.public, MemoryType.SHORT_TERM)
    path = f"/m/{short.pk}/lines/0/edit/"
    values = {"text": "Longer", "based_on": 1, "revision": 0, "on": "now"}
    assert (
        "hx-post"
        not in cast.clients["editor"].get(f"{path}?on=now").content.decode().partition("<main")[2]
    )
    assert cast.clients["editor"].post(path, values)["Location"] == "/w/team/c/C0PUBLIC/#now"
    short.refresh_from_db()
    assert short.current.content == "- Longer"
