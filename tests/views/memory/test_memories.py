"""The editor of a memory, with conflicts and drafts, and its versions."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.http import HttpResponse

from memories.models import Draft
from memories.rules.memory.lines import Origin
from memories.rules.redaction.shingles import QuoteMatcher
from tests.factories import MONDAY, make_version
from tests.views.conftest import Cast, assert_same_queries

pytestmark = pytest.mark.slow

HTMX = {"HX-Request": "true"}
YOURS = "- We launch on Tuesday\n- Aya owns iOS"
THEIRS = "- We launch on Wednesday\n- Aya owns iOS\n- Tom tests"


def edit(cast: Cast, text: str, name: str = "editor", base: int = 2, **given: str) -> HttpResponse:
    headers = HTMX if given.pop("htmx", "") else {}
    data = {"text": text, "based_on": base, "revision": 0, **given}
    return cast.clients[name].post(f"/m/{cast.memory.pk}/edit/", data, headers=headers)


def text_in(page: str) -> str:
    """Return the text in the textarea of the page."""
    match = re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
    assert match
    return unescape(match[1])


def chosen(page: str, choice: str) -> dict[str, str]:
    """Return what the page of a conflict sends when this is chosen everywhere."""
    made = dict(re.findall(r'name="(made-\d+)" value="(\w+)"', page))
    choices = dict.fromkeys((name.replace("made", "choice") for name in made), choice)
    return {"yours": YOURS, "seen": "2", "seen_revision": "0", **made, **choices}


def hidden_in(page: str, name: str) -> str:
    match = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert match
    return unescape(match[1])


def keep(cast: Cast, text: str = YOURS, name: str = "editor", **given: str) -> HttpResponse:
    headers = HTMX if given.pop("htmx", "") else {}
    data = {"text": text, "based_on": "2", "revision": "0", **given}
    return cast.clients[name].post(f"/m/{cast.memory.pk}/draft/", data, headers=headers)


def test_the_editor_has_the_text_and_its_base(cast: Cast) -> None:
    page = cast.clients["editor"].get(f"/m/{cast.memory.pk}/edit/").content.decode()
    assert text_in(page) == cast.memory.current.content
    assert hidden_in(page, "based_on") == "2"


def test_saving_creates_a_version_of_the_person(cast: Cast) -> None:
    response = edit(cast, YOURS.replace("\n", "\r\n"))
    assert response.status_code == 302
    assert response["Location"] == "/w/team/c/C0PUBLIC/#memory"
    cast.memory.refresh_from_db()
    current = cast.memory.current
    assert (current.number, current.origin, current.author) == (
        3,
        Origin.PERSON,
        cast.users["editor"],
    )
    assert current.content == YOURS
    page = cast.clients["editor"].get(response["Location"]).content.decode()
    assert "Saved as version 3." in page


def test_saving_by_htmx_returns_the_card_the_rail_and_a_toast(cast: Cast) -> None:
    response = edit(cast, YOURS, htmx="1")
    part = response.content.decode()
    assert response.status_code == 200 and "<html" not in part
    assert 'id="memory"' in part and "We launch on Tuesday" in part
    assert 'id="rail" class="side" hx-swap-oob="true"' in part
    assert 'id="toast" hx-swap-oob="innerHTML"' in part and "Saved as version 3." in part
    assert "autofocus" in part


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("  \n ", "A memory cannot be empty", id="blank"),
        pytest.param("- \n* ", "A memory cannot be empty", id="only bullets"),
        pytest.param("", "A memory cannot be empty", id="empty"),
        pytest.param("x" * 20_001, "20001 characters", id="too long"),
        pytest.param("- We launch on Monday\n- Aya owns iOS", "No differences", id="unchanged"),
    ],
)
def test_an_invalid_text_stays_in_the_editor(cast: Cast, text: str, words: str) -> None:
    response = edit(cast, text)
    page = response.content.decode()
    assert response.status_code == 422
    assert words in page
    assert text_in(page).strip() == text.strip()
    assert 'aria-describedby="text-hint text-error"' in page
    assert cast.memory.versions.count() == 2


def test_an_edit_with_only_redacted_lines_stays_in_the_editor(cast: Cast) -> None:
    cast.memory.current.redact(QuoteMatcher(frozenset()), [cast.memory.current.lines.first().pk])
    forgotten, _left = cast.memory.versions.get(number=2).content.split("\n")
    response = edit(cast, forgotten, revision="1")
    page = response.content.decode()
    assert response.status_code == 422
    assert "A memory cannot be empty" in page and text_in(page) == forgotten
    assert cast.memory.versions.count() == 2


@pytest.mark.parametrize(
    ("name", "status"),
    [("member", 403), ("guest", 403), ("outsider", 404), ("nobody", 302)],
)
def test_other_readers_cannot_edit(cast: Cast, name: str, status: int) -> None:
    assert edit(cast, YOURS, name).status_code == status
    assert cast.memory.versions.count() == 2


@pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
def test_a_conflict_keeps_both_texts(cast: Cast, htmx: str) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    response = edit(cast, YOURS, htmx=htmx)
    page = response.content.decode()
    assert response.status_code == 409
    assert ("<html" in page) is (not htmx)
    assert "We launch on Tuesday" in page and "We launch on Wednesday" in page
    assert hidden_in(page, "yours") == YOURS
    assert hidden_in(page, "based_on") == "3"
    # A paragraph that one side changed is merged; one that both changed is kept twice.
    assert text_in(page) == (
        "- We launch on Tuesday\n- We launch on Wednesday\n- Aya owns iOS\n- Tom tests"
    )
    assert cast.memory.versions.count() == 3
    again = edit(cast, text_in(page), base=3, do="save")
    assert again.status_code == 302
    assert cast.memory.versions.get(number=4).author == cast.users["editor"]


class TestSummary:
    """The summary of an edit is the name of its version."""

    def test_the_summary_is_the_name_of_the_version(self, cast: Cast) -> None:
        assert edit(cast, YOURS, summary="after the review ").status_code == 302
        assert cast.memory.versions.get(number=3).name == "after the review"

    def test_an_empty_summary_gives_no_name(self, cast: Cast) -> None:
        edit(cast, YOURS, summary=" ")
        assert cast.memory.versions.get(number=3).name == ""

    def test_a_long_summary_stays_in_the_editor(self, cast: Cast) -> None:
        response = edit(cast, YOURS, summary="x" * 81)
        page = response.content.decode()
        assert response.status_code == 422 and "at most 80 characters" in page
        assert text_in(page) == YOURS and hidden_in(page, "summary") == "x" * 81

    def test_a_conflict_keeps_the_summary(self, cast: Cast) -> None:
        cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
        page = edit(cast, YOURS, summary="after the review").content.decode()
        assert hidden_in(page, "summary") == "after the review"


@pytest.mark.parametrize(
    ("choice", "first"),
    [
        ("yours", "- We launch on Tuesday"),
        ("theirs", "- We launch on Wednesday"),
        ("both", "- We launch on Tuesday\n- We launch on Wednesday"),
    ],
)
def test_choices_are_joined(cast: Cast, choice: str, first: str) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    page = edit(cast, YOURS).content.decode()
    chosen = re.findall(r'name="(choice-\d+)" value="yours"', page)
    data = {chosen[0]: choice, chosen[1]: "theirs", "yours": YOURS, "seen": "2", "do": "choose"}
    response = edit(cast, "whatever stood there", base=3, **data)
    assert response.status_code == 200
    page = response.content.decode()
    assert text_in(page) == f"{first}\n- Aya owns iOS\n- Tom tests"
    assert re.search(r"<textarea readonly[^>]*>whatever stood there</textarea>", page)
    assert cast.memory.versions.count() == 3


@pytest.mark.parametrize("result", ["", "x" * 20_001], ids=["nothing", "too much"])
def test_a_result_that_cannot_be_saved_leaves_the_conflict_open(cast: Cast, result: str) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    edit(cast, YOURS)
    sent = {"yours": YOURS, "seen": "2", "seen_revision": "0", "do": "save", "choice-0": "yours"}
    response = edit(cast, result, base=3, **sent)
    page = response.content.decode()
    assert response.status_code == 422 and 'id="text-error"' in page
    assert text_in(page) == result
    assert hidden_in(page, "seen") == "2" and 'name="yours"' in page
    assert 'value="yours" checked' in page
    assert Draft.objects.get().text == YOURS


@pytest.mark.parametrize(
    ("typed", "saved"),
    [
        pytest.param("", YOURS, id="the choices"),
        pytest.param("- My own result", "- My own result", id="what was typed"),
    ],
)
def test_choices_count_without_joining_them(cast: Cast, typed: str, saved: str) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    page = edit(cast, YOURS).content.decode()
    sent = chosen(page, "yours")
    assert sorted(sent[name] for name in sent if name.startswith("made")) == ["both", "theirs"]
    assert edit(cast, typed or text_in(page), base=3, do="save", **sent).status_code == 302
    assert cast.memory.versions.get(number=4).content == saved


def test_a_conflict_by_htmx_updates_the_rail(cast: Cast) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    part = edit(cast, YOURS, htmx="1").content.decode()
    _, rail = part.split('id="rail" class="side" hx-swap-oob="true"')
    [current] = [row for row in rail.split("<li")[1:] if 'class="badge"' in row]
    assert ">v3</a>" in current
    again = {"yours": YOURS, "seen": "2", "do": "choose", "htmx": "1"}
    assert 'id="rail"' not in edit(cast, YOURS, base=3, **again).content.decode()
    assert 'id="rail"' not in edit(cast, YOURS).content.decode()


STANDS = "This text is already saved as version 3."


@pytest.mark.parametrize("htmx", ["", "1"], ids=["page", "part"])
@pytest.mark.parametrize(
    ("your_text", "theirs"),
    [
        pytest.param(YOURS, YOURS, id="the same words"),
        pytest.param(YOURS, YOURS.replace("- Aya", "* Aya"), id="but for a bullet of theirs"),
    ],
)
def test_the_same_edit_by_both_is_saved_already(
    cast: Cast, your_text: str, theirs: str, htmx: str
) -> None:
    keep(cast)
    cast.memory.revise(theirs, by=cast.users["insider"], based_on=2)
    response = edit(cast, your_text, htmx=htmx)
    if htmx:
        part = response.content.decode()
        assert response.status_code == 200 and STANDS in part and "<html" not in part
        assert 'id="memory"' in part and 'id="rail" class="side" hx-swap-oob="true"' in part
    else:
        assert (response.status_code, response["Location"]) == (302, "/w/team/c/C0PUBLIC/#memory")
        assert STANDS in cast.clients["editor"].get(response["Location"]).content.decode()
    assert cast.memory.versions.count() == 3
    assert not Draft.objects.exists()


def test_choosing_only_saved_lines_needs_no_version(cast: Cast) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    page = edit(cast, YOURS).content.decode()
    assert Draft.objects.exists()
    response = edit(cast, text_in(page), base=3, do="save", **chosen(page, "theirs"))
    assert response.status_code == 302
    assert STANDS in cast.clients["editor"].get(response["Location"]).content.decode()
    assert cast.memory.versions.count() == 3
    assert not Draft.objects.exists()


def test_a_second_conflict_keeps_the_text(cast: Cast) -> None:
    cast.memory.revise(THEIRS, by=cast.users["insider"], based_on=2)
    cast.memory.revise(THEIRS + "\n- More", by=cast.users["insider"], based_on=3)
    response = edit(cast, "- my result of the first conflict", base=3, do="save")
    assert response.status_code == 409
    assert "my result of the first conflict" in response.content.decode()


def test_a_text_rewritten_during_the_edit_is_a_conflict(cast: Cast) -> None:
    version = cast.memory.current
    cast.memory.versions.filter(pk=version.pk).update(revision=1, content="- By the model again")
    response = edit(cast, YOURS)
    assert response.status_code == 409
    assert "By the model again" in response.content.decode()


def test_new_lines_of_a_rewritten_text_are_not_removed(cast: Cast) -> None:
    """The base text is lost, so a line that only they have may be new."""
    again = "- We launch on Monday\n- Aya owns iOS\n- Tom tests"
    cast.memory.versions.filter(number=2).update(revision=1, content=again)
    page = edit(cast, YOURS).content.decode()
    kept = "- We launch on Tuesday\n- We launch on Monday\n- Aya owns iOS\n- Tom tests"
    assert text_in(page) == kept
    names = ("yours", "seen", "seen_revision", "based_on", "revision")
    sent = {name: hidden_in(page, name) for name in names}
    response = cast.clients["editor"].post(f"/m/{cast.memory.pk}/edit/", {**sent, "do": "choose"})
    assert text_in(response.content.decode()) == kept


def test_a_text_withdrawn_during_the_edit_is_a_conflict(cast: Cast) -> None:
    cast.memory.versions.update(audience="nobody")
    cast.memory.update_current()
    response = edit(cast, YOURS)
    page = response.content.decode()
    assert response.status_code == 409
    assert "the text was withdrawn" in page and not re.search(r"\bv0\b", page)
    assert text_in(page) == hidden_in(page, "yours") == YOURS
    assert edit(cast, YOURS, base=0, do="save").status_code == 302


def test_the_write_itself_checks_the_base(cast: Cast) -> None:
    """Two people send the same form at the same time, and one gets a conflict."""
    first, second = edit(cast, YOURS, "editor"), edit(cast, THEIRS, "insider")
    assert (first.status_code, second.status_code) == (302, 409)
    assert YOURS.split("\n")[0][2:] in second.content.decode()
    assert cast.memory.versions.count() == 3


def test_the_editor_explains_the_next_update(cast: Cast) -> None:
    page = cast.clients["editor"].get(f"/m/{cast.memory.pk}/edit/").content.decode()
    assert "The next automatic update starts from this text" in page
    assert "Lines that you write, change or pin are kept unchanged" in page


def test_the_card_lists_kept_and_restored_lines(cast: Cast) -> None:
    make_version(
        memory=cast.memory,
        text="- a\n- b\n- c",
        until=MONDAY + timedelta(hours=1),
        kept=["- a", "- b"],
        put_back=["- c"],
    )
    page = cast.clients["member"].get(cast.path("c/C0PUBLIC/")).content.decode()
    card = page[page.index('id="memory"') : page.index('id="now"')]
    assert "Kept: 2 lines by people." in card
    assert "Restored: 1 line that the model had dropped." in card


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (YOURS + "\n- And more", "your edit is unchanged"),
        ("- We launch on Monday\n- Aya owns iOS", "your edit was changed: compare"),
    ],
)
def test_the_rail_has_the_outcome_of_the_readers_edit(cast: Cast, text: str, outcome: str) -> None:
    edit(cast, YOURS)
    path = cast.path("c/C0PUBLIC/")
    assert "your edit" not in cast.clients["editor"].get(path).content.decode()
    made = make_version(memory=cast.memory, text=text, until=MONDAY + timedelta(hours=2))
    make_version(memory=cast.memory, text="- Much later", until=MONDAY + timedelta(hours=3))
    page = cast.clients["editor"].get(path).content.decode()
    assert page.count("your edit") == 1 and outcome in page
    own = cast.memory.versions.get(number=3)
    assert (f"/diff/{own.pk}..{made.pk}/" in page) is ("compare" in outcome)
    assert "your edit" not in cast.clients["insider"].get(path).content.decode()


def test_the_outcome_is_at_the_first_update_alone(cast: Cast) -> None:
    edit(cast, YOURS)
    for i in range(12):
        make_version(memory=cast.memory, text=f"- {i}")
    editor = cast.clients["editor"]
    assert "your edit" not in editor.get(cast.path("c/C0PUBLIC/")).content.decode()
    rail = editor.get(f"/m/{cast.memory.pk}/versions/", headers=HTMX).content.decode()
    [outcome] = [row for row in rail.split("<li")[1:] if "your edit" in row]
    assert ">v4</a>" in outcome and "your edit was changed: compare" in outcome


def test_all_versions_are_listed_newest_first(cast: Cast) -> None:
    edit(cast, YOURS)
    page = cast.clients["member"].get(f"/m/{cast.memory.pk}/versions/").content.decode()
    assert [int(n) for n in re.findall(r"<h2><a[^>]*>v(\d+)<", page)] == [3, 2, 1]
    assert "author-icon-person" in page and "edited by a person" in page


def test_versions_are_paged(cast: Cast) -> None:
    for i in range(60):
        make_version(memory=cast.memory, text=f"- {i}")
    page = cast.clients["member"].get(f"/m/{cast.memory.pk}/versions/").content.decode()
    assert "?page=2" in page and ">v62</a>" in page and ">v12</a>" not in page
    older_page = (
        cast.clients["member"].get(f"/m/{cast.memory.pk}/versions/?page=2").content.decode()
    )
    assert ">v12</a>" in older_page and ">v13</a>" not in older_page


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "rail"])
def test_queries_do_not_grow_with_rows(cast: Cast, headers: dict[str, str]) -> None:
    def grow(size: int) -> None:
        for i in range(size):
            version = make_version(memory=cast.memory, text=f"- {size}, {i}")
            version.rename(f"Number {i}", by=cast.users["editor"])

    path = f"/m/{cast.memory.pk}/versions/"
    assert_same_queries(grow, lambda: cast.clients["member"].get(path, headers=headers))


@pytest.mark.nightly("quicker tests run the same lines")
def test_all_versions_replace_the_rail(cast: Cast) -> None:
    for i in range(60):
        make_version(memory=cast.memory, text=f"- {i}")
    member, address = cast.clients["member"], f"/m/{cast.memory.pk}/versions/"
    page = member.get(cast.path("c/C0PUBLIC/")).content.decode()
    assert f'<a href="{address}" hx-get="{address}" hx-target="#rail"' in page
    part = member.get(address, headers=HTMX).content.decode()
    assert part.startswith('<section id="rail"') and "hx-swap-oob" not in part
    assert part.count("<li") == 50 and "autofocus" in part
    assert 'hx-get="' + address + '?page=2"' in part
    older_page = member.get(f"{address}?page=2", headers=HTMX).content.decode()
    assert older_page.count("<li") == 12 and ">v1</a>" in older_page
