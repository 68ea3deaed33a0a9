"""Tasks of people: read, correct, open the source, catch up, compare, restore."""

import re
import time

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from memories.models import Job, Note, Seen
from tests.browser.conftest import enter, sign_in
from tests.browser.story import Story, fail_a_job
from tests.browser.team import Team
from tests.processes import PATIENCE

pytestmark = pytest.mark.browser


def follow_a_line(page: Page) -> None:
    page.locator("#memory .line").first.hover()
    page.locator("#memory .chip").first.click()
    source = page.locator(".message.source:target")
    expect(source).to_be_in_viewport()
    expect(source).to_contain_text("source 1")
    marked, unmarked = (
        page.locator(rows).first.evaluate("row => getComputedStyle(row).backgroundColor")
        for rows in (".message.source", ".message:not(.source)")
    )
    assert marked != unmarked


@pytest.mark.nightly("in the large team")
def test_catch_up_without_opening_a_channel(page: Page, team: Team) -> None:
    """Every changed channel has its new lines with sources. Removed lines are one step away."""
    changed = {str(key) for key in Seen.objects.values_list("memory", flat=True)}
    assert len(changed) > 50
    sign_in(page, team)
    page.goto(team.at("/"))
    more = page.locator("#more a")
    while more.count():
        shown = page.locator(".entry").count()
        more.click()
        expect(page.locator(".entry")).not_to_have_count(shown)
    entries = page.locator("#entries .entry")
    listed = entries.evaluate_all(
        """all => all.map(one => ({
            key: one.id.replace("entry-", ""),
            came: one.querySelectorAll(".came li").length,
            sources: one.querySelectorAll(".came .chip").length,
        }))"""
    )
    assert changed <= {item["key"] for item in listed}
    assert [item for item in listed if not item["came"]] == []
    assert [item for item in listed if item["key"] in changed and not item["sources"]] == []
    page.locator(f"#entry-{team.prose.pk} summary").first.click()
    removed = page.locator(f"#entry-{team.prose.pk} details.fold")
    expect(removed.locator("del").first).to_be_hidden()
    removed.locator("summary").click()
    expect(removed.locator("del").first).to_be_visible()


@pytest.mark.nightly("no JavaScript")
def test_restore_an_old_version_and_undo_it_without_javascript(
    plain: BrowserContext, story: Story
) -> None:
    """Two interactions, two more versions, and every text that was there still is. With JavaScript:
    test_journey.py."""
    page = plain.new_page()
    first, before = story.now, story.texts()
    sign_in(page, story)
    page.goto(story.at(f"/v/{story.version(2)}/"))
    page.click("text=Restore v2")
    expect(page.locator("h1")).to_contain_text(f"v{first + 1} of {first + 1}")
    toast = page.locator("#toast")
    expect(toast).to_contain_text(f"Version 2 was restored as version {first + 1}.")
    toast.locator("text=Undo").click()
    expect(page.locator("h1")).to_contain_text(f"v{first + 2} of {first + 2}")
    assert story.texts() == [*before, before[1], before[-1]]


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param(True, id="js"),
        pytest.param(False, id="nojs", marks=pytest.mark.nightly("no JavaScript")),
    ],
)
def test_a_conflict_keeps_my_text(
    page: Page, plain: BrowserContext, story: Story, scripts: bool
) -> None:
    page = page if scripts else plain.new_page()
    first = story.now
    sign_in(page, story)
    page.goto(story.channel)
    page.click("#memory >> text=Edit")
    text = page.locator("#text")
    text.fill(f"- My own line.\n{text.input_value()}")
    story.meanwhile("- Their own line.")
    with page.expect_response(lambda answer: answer.request.method == "POST") as posted:
        page.click("text=Save as new version")
    assert posted.value.status == 409
    expect(page.locator(".yours").first).to_contain_text("My own line.")
    expect(page.locator(".theirs").first).to_contain_text("Their own line.")
    if scripts:
        expect(page.locator("#rail .current")).to_contain_text(f"v{first + 1}")
    page.locator(".hunk input[value=yours]").first.check()
    page.click("text=Combine the choices")
    expect(text).not_to_have_value(re.compile("Their own line"))
    page.locator(".hunk input[value=both]").first.check()
    page.click("text=Combine the choices")
    expect(text).to_have_value(re.compile("My own line.*Their own line", re.S))
    page.click("text=Save as new version")
    for line in ("My own line.", "Their own line."):
        expect(page.locator("#memory .lines")).to_contain_text(line)
    assert story.now == first + 2


READ = "catch-up workspace messages thread version sources compare edit context notes jobs cost".split()


@pytest.mark.nightly("no JavaScript")
def test_everything_works_without_javascript(plain: BrowserContext, story: Story) -> None:
    """Conflict and restore are above. Importing is test_setup.py's."""
    page = plain.new_page()
    enter(plain, story.url, story.user)
    for name in READ:
        answer = page.goto(story.at(story.pages()[name]))
        assert answer is not None
        assert (name, answer.status) == (name, 200)
        expect(page.locator("h1")).to_be_visible()

    page.goto(story.channel)
    follow_a_line(page)

    page.goto(story.channel)
    page.click("#memory >> text=Edit")
    text = page.locator("#text")
    text.fill(f"{text.input_value()}\n- Nao tests on Tuesday.")
    page.click("text=Save as new version")
    expect(page.locator("#toast")).to_contain_text("Saved as version")
    expect(page.locator("#memory .lines")).to_contain_text("Nao tests on Tuesday.")

    page.click("#memory >> text=Compare")
    expect(page.locator(".diff ins")).to_contain_text("Nao tests on Tuesday.")
    expect(page.locator(".changes li")).to_contain_text("Added")

    page.click("nav >> text=Catch up")
    entry = page.locator(f"#entry-{story.memory.pk}")
    entry.locator("summary").first.click()
    entry.get_by_role("button", name="Mark as seen").click()
    expect(page.locator("#toast")).to_contain_text("is marked as seen up to")
    expect(entry).to_contain_text("seen up to")
    assert Seen.objects.get(user=story.user, memory=story.memory).number == story.now

    page.click("nav >> text=Search")
    page.get_by_role("searchbox").fill("frozen build")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".hit mark").first).to_be_visible()

    page.click("nav >> text=Notes")
    page.fill("#id_content", "A note without a script")
    page.click("#add button")
    expect(page.locator("#notes")).to_contain_text("A note without a script")
    assert Note.objects.filter(content="A note without a script").exists()
    page.fill("#q", "without a script")
    page.click("form.search button")
    expect(page.locator("#notes article")).to_have_count(1)

    job = fail_a_job(story.memory)
    page.click("nav >> text=Manage")
    page.click("nav >> text=Jobs")
    page.locator(f"#retry-{job.pk}").click()
    expect(page.locator("#toast")).to_contain_text("1 job will be retried.")
    job.refresh_from_db()
    assert job.state == Job.State.WAITING

    page.click("nav >> text=Context")
    page.get_by_label("Token limit").fill("4000")
    page.get_by_role("button", name="Show the context").click()
    expect(page.locator("#text")).to_contain_text("Kazoe 3 launches")


def test_typed_text_outlives_the_offer_of_a_draft(page: Page, story: Story) -> None:
    """The offer to discard applies to the previous draft, and disappears when that is replaced."""
    sign_in(page, story)

    def open_editor() -> None:
        page.goto(story.channel)
        page.click("#memory >> text=Edit")
        expect(page.locator("#text")).to_be_focused()

    def type_and_wait(words: str) -> None:
        page.keyboard.type(words)
        expect(page.locator("#draft")).to_contain_text("Draft saved at")

    page.on("dialog", lambda dialog: dialog.accept())
    open_editor()
    expect(page.get_by_text("You have an unsaved draft")).to_have_count(0)
    type_and_wait("- This morning.\n")
    open_editor()
    page.keyboard.type("- Now.\n")
    page.get_by_role("button", name="Discard draft").click()
    expect(page.get_by_text("You have an unsaved draft")).to_have_count(0)
    expect(page.locator("#text")).to_have_value(re.compile(r"^- Now\.\n(?!- This morning)"))
    open_editor()
    expect(page.get_by_text("You have an unsaved draft")).to_be_visible()
    type_and_wait("- Later.\n")
    expect(page.get_by_text("You have an unsaved draft")).to_have_count(0)


def test_typing_on_while_a_note_is_added_loses_nothing(page: Page, story: Story) -> None:
    """Not the text, nor the focus: single keys act on whatever has that."""
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/notes/"))
    routes: list[Route] = []

    def delay(route: Route) -> None:
        routes.append(route)

    def let_through(number: int) -> None:
        """Wait for the request with this number, and send it on."""
        deadline = time.monotonic() + PATIENCE
        while len(routes) <= number:
            assert time.monotonic() < deadline
            page.wait_for_timeout(10)
        routes[number].continue_()

    page.route("**/notes/", delay)
    text = page.locator("#id_content")
    text.fill("The first one.")
    text.press("Control+Enter")
    page.keyboard.type(" Ever")
    let_through(0)
    expect(page.locator("#notes article").first).to_contain_text("The first one.")
    expect(text).to_be_focused()
    page.keyboard.type(" and ever")
    expect(text).to_have_value("The first one. Ever and ever")
    text.press("Control+Enter")
    let_through(1)
    expect(page.locator("#notes article").first).to_contain_text("Ever and ever")
    expect(text).to_have_value("")  # nothing was typed since


@pytest.mark.nightly("no script of ours takes part")
def test_the_count_of_the_trash_follows(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/notes/"))
    count = page.locator("#in-trash")
    before = count.inner_text()
    note = page.locator("#notes article").first
    note.get_by_role("button", name="Delete").click()
    expect(count).not_to_have_text(before)
    page.get_by_role("button", name="Undo").click()
    expect(count).to_have_text(before)
