"""Keyboard focus, screen reader messages, and the whole product without a mouse."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, Page, expect

from memories.models import Job, Note, Seen
from tests.browser.conftest import enter, sign_in
from tests.browser.story import Story, fail_a_job
from tests.browser.team import Team

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Action:
    """``path`` is opened and ``do`` is done. Then the focus is in ``region`` and ``news`` was
    announced.
    """

    path: Callable[[Team], str]
    do: Callable[[Page, Team], None]
    region: str
    news: str


def channel(team: Team) -> str:
    return team.channel


def edit(page: Page, team: Team) -> None:
    page.click("#memory >> text=Edit")


def save(page: Page, team: Team) -> None:
    edit(page, team)
    page.locator("#text").press_sequentially("- One more.\n")
    page.click("text=Save as new version")


def conflict(page: Page, team: Team) -> None:
    edit(page, team)
    page.locator("#text").press_sequentially("- Mine.\n")
    team.meanwhile("- Theirs.")
    page.click("text=Save as new version")


def restore(page: Page, team: Team) -> None:
    page.click("text=Restore v2")


def retry(page: Page, team: Team) -> None:
    page.click("[id^=retry-]:not(#retry-failed)")


def mark_seen(page: Page, team: Team) -> None:
    page.locator("#entries .entry summary").first.click()
    page.click("#entries .entry >> text=Mark as seen")


def add_note(page: Page, team: Team) -> None:
    page.fill("#id_content", "Typed here")
    page.click("#add button.primary")


def search(page: Page, team: Team) -> None:
    page.get_by_role("searchbox").press_sequentially("移行")


def at(path: str) -> Callable[[Team], str]:
    return lambda team: team.at(f"/w/{team.workspace.slug}/{path}")


ACTIONS = {
    "edit": Action(channel, edit, "#memory", "The editor is open."),
    "save": Action(channel, save, "#memory", "Saved as version"),
    "conflict": Action(channel, conflict, "#memory.conflict", "Your text was kept"),
    "more entries": Action(
        at("catch-up/"), lambda page, _: page.click("#more a"), "#entries", "more are shown."
    ),
    "older messages": Action(
        lambda team: f"{team.channel}messages/",
        lambda page, _: page.click("#older a"),
        "#messages",
        "more messages are shown.",
    ),
    "restore": Action(
        lambda team: team.at(f"/v/{team.version(2)}/"), restore, "#version", "was restored as"
    ),
    "retry": Action(at("jobs/"), retry, "#jobs", "1 job will be retried."),
    "mark seen": Action(at("catch-up/"), mark_seen, "#entries", "is marked as seen up to"),
    "add a note": Action(at("notes/"), add_note, "#notes", "added"),
    "search": Action(at("search/"), search, "form.finder", "results in"),
}


@pytest.mark.nightly("in the large team")
@pytest.mark.parametrize("name", ACTIONS)
def test_focus_and_status_after_a_swap(page: Page, team: Team, name: str) -> None:
    """The focus is in the new part, and the status region that existed before has the news."""
    action = ACTIONS[name]
    fail_a_job(team.memory)  # for the one that retries it
    sign_in(page, team)
    page.goto(action.path(team))
    page.evaluate(
        """for (const one of document.querySelectorAll("[role=status]")) one.wasThere = true"""
    )
    action.do(page, team)
    status = page.locator("[role=status]", has_text=action.news)
    expect(status).to_have_count(1)
    assert status.evaluate("one => one.wasThere === true")
    expect(page.locator(f"{action.region}:focus, {action.region} :focus")).to_have_count(1)


def test_older_messages_load_above_and_receive_focus(
    page: Page, story: Story, complaints: list[str]
) -> None:
    sign_in(page, story)
    page.goto(f"{story.channel}messages/")
    rows = page.locator(".message")
    before = rows.count()
    first = rows.first.get_attribute("id")
    page.locator("#older a").click()
    expect(rows).not_to_have_count(before)
    assert rows.count() > before
    # The focused row is next to the row that was first before.
    ids = rows.evaluate_all("rows => rows.map(row => row.id)")
    expect(page.locator(f'[id="{ids[ids.index(first) - 1]}"]')).to_be_focused()
    days = page.locator(".day").evaluate_all("days => days.map(day => day.dataset.day)")
    assert len(days) == len(set(days))


@pytest.mark.nightly("a long walk")
def test_keyboard_only(page: Page, story: Story) -> None:
    """Each task by Tab, Enter, Space and Esc; wherever the keyboard is can be seen, and is not
    covered; no place holds it. Importing is test_setup.py's."""
    job = fail_a_job(story.memory)
    enter(page.context, story.url, story.user)

    page.goto(story.channel)
    to(page, page.locator(".skip"), "Enter")
    to(page, page.locator("#memory-text-0"), "Enter")
    expect(page.get_by_label("Text of this line")).to_be_focused()
    to(page, page.locator("#memory-line-0 .chip").first, "Enter")
    expect(page.locator(".message.source:target")).to_be_in_viewport()

    page.goto(story.channel)
    to(page, page.locator("#memory .actions >> text=Edit"), "Enter")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("- Nao tests on Tuesday.\n")
    story.meanwhile("- Theirs.")
    to(page, page.locator("#memory button.primary"), "Enter")
    expect(page.locator("#conflict-title")).to_be_focused()
    to(page, page.locator(".hunk input:checked").first)
    page.keyboard.press("ArrowDown")
    to(page, page.locator("text=Combine the choices"), "Space")
    expect(page.locator("#text")).to_be_focused()
    to(page, page.locator("#memory button.primary"), "Enter")
    expect(page.locator("#memory .lines")).to_contain_text("Nao tests on Tuesday.")

    page.goto(story.at(f"/v/{story.version(2)}/"))
    newest = story.now
    to(page, page.locator("text=Restore v2"), "Enter")
    expect(page.locator("#toast")).to_contain_text(f"as version {newest + 1}.")
    to(page, page.locator("#toast >> text=Undo"), "Enter", back=True)
    expect(page.locator("#toast")).to_contain_text(f"as version {newest + 2}.")

    page.goto(story.at("/w/kazoe/catch-up/"))
    to(page, page.locator(f"#entry-{story.memory.pk} summary").first, "Enter")
    to(page, page.locator(f"#entry-{story.memory.pk} >> text=Mark as seen"), "Enter")
    expect(page.locator("#toast")).to_contain_text("is marked as seen up to")
    assert Seen.objects.get(user=story.user, memory=story.memory).number == story.now

    page.goto(story.at("/w/kazoe/search/"))
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("frozen")
    expect(page.locator(".hit mark").first).to_be_visible()
    to(page, page.locator(".hit a").first, "Enter")
    page.wait_for_url(re.compile(r"/c/|/v/"))

    page.goto(story.at("/w/kazoe/notes/"))
    to(page, page.locator("#id_content"))
    page.keyboard.type("Typed by hand alone")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notes")).to_contain_text("Typed by hand alone")
    assert Note.objects.filter(content="Typed by hand alone").exists()

    page.goto(story.at("/w/kazoe/jobs/"))
    to(page, page.locator(f"#retry-{job.pk}"), "Space")
    expect(page.locator("#toast")).to_contain_text("1 job will be retried.")
    job.refresh_from_db()
    assert job.state == Job.State.WAITING


@pytest.mark.nightly("every look")
def test_the_menu_of_a_narrow_page(page: Page, story: Story) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    sign_in(page, story)
    to(page, page.locator(".topbar button"), "Enter")
    expect(page.locator("#nav")).to_be_visible()
    to(page, page.locator("nav a", has_text="Notes"))
    page.keyboard.press("Escape")
    expect(page.locator("#nav")).to_be_hidden()
    expect(page.locator(".topbar button")).to_be_focused()


SEEN = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return "nowhere";
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return "no outline";
    const inside = (x, y) => {
        const top = document.elementFromPoint(x, y);
        return top && (one.contains(top) || top.contains(one) || top.closest("label")?.contains(one));
    };
    // One that is larger than the window is never seen whole.
    const [x, y] = [box.left + box.width / 2, box.top + Math.min(box.height, innerHeight) / 2];
    return inside(x, y) || inside(box.left + 3, box.top + 3) ? "" : "covered or out of sight";
}"""


def to(page: Page, target: Locator, key: str = "", *, back: bool = False) -> None:
    """Tab until the target has the keyboard, looking at each stop; then press the key."""
    expect(target).to_be_visible()
    for _ in range(150):
        if target.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab" if back else "Tab")
        fault = page.evaluate(SEEN)
        # Beyond the last control the keyboard is in the browser's own, then at the first again.
        if fault and fault != "nowhere":
            at = page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
            raise AssertionError(f"{fault}: {at} on {page.url}")
    expect(target).to_be_focused()
    if key:
        page.keyboard.press(key)


def test_no_request_is_sent_while_a_japanese_word_is_composed(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/notes/"))
    requests: list[str] = []
    page.on(
        "request", lambda request: requests.append(request.url) if "?q=" in request.url else None
    )
    page.focus("#q")
    keyboard = page.context.new_cdp_session(page)
    for so_far in ("せ", "せい", "せいす", "せいすう"):
        keyboard.send(
            "Input.imeSetComposition",
            {"text": so_far, "selectionStart": len(so_far), "selectionEnd": len(so_far)},
        )
    assert requests == []
    with page.expect_response(lambda response: "?q=" in response.url):
        keyboard.send("Input.insertText", {"text": "整数"})
    expect(page.locator("#notes article")).to_have_count(1)
    expect(page.locator("#notes-count")).to_contain_text("1 note contains “整数”")
    assert len(requests) == 1
    assert page.url.endswith("?q=%E6%95%B4%E6%95%B0")


def test_unsaved_text_is_not_left_by_accident(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("half a thought")
    page.click("nav >> text=Notes")
    page.wait_for_url("**/notes/")
    assert dialogs == ["beforeunload"]
