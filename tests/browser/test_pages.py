"""Every page and state: axe finds nothing, it fits, it keeps still, and the console is silent.

AXE=all looks at every state, too, in each theme, language and width.
"""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import product
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from memories.models import Backfill, Endpoint, Generation, Memory, Note
from memories.rules.memory import MemoryType
from memories.rules.slacktime import to_micros
from tests.browser.conftest import enter
from tests.browser.measures import WATCH, shifts, sideways, too_narrow, too_small
from tests.browser.story import Story, fail_a_job
from tests.factories import MemberFactory, WorkspaceFactory

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AT_WORK = ".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added"
WIDTHS = {320: 640, 768: 1024, 1280: 900}
LANGUAGES = ("en", "ja")
THEMES = ("light", "dark")
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "ja": {"color_scheme": "light", "locale": "ja"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 320, "height": 640}},
    "narrow-ja": {
        "color_scheme": "dark",
        "locale": "ja",
        "viewport": {"width": 320, "height": 640},
    },
}
ALL = os.environ.get("AXE") == "all"
NO_ANSWER = re.compile("ERR_FAILED|htmx:")  # a state that is wanted
PARTS = 4  # for several processes to share


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("language", LANGUAGES)
def test_15_18_19_22_every_page(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, language: str, part: int
) -> None:
    """Full pages, each loaded once and then looked at in both themes and three widths: axe finds
    nothing (15); it is as wide as the window, also at 320 px, which is 1280 px at 400 percent, and
    with more space between the letters (18); targets are large enough (19); nothing had shifted
    when it was loaded (22)."""
    fail_a_job(story.memory)
    page = open_page(browser, browser_context_args, language, {"en": 1280, "ja": 320}[language])
    said = errors_of(page)
    page.add_init_script(WATCH)

    def look(path: str) -> list[str]:
        page.goto(story.at(path.partition("#")[0]))
        return shifts(page) + in_all_looks(page) + too_narrow(page) + too_small(page)

    faults = {"login": look("/login/")} if part == 0 else {}
    enter(page.context, story.url, story.user)
    faults |= {name: look(path) for name, path in list(story.pages().items())[part::PARTS]}
    page.context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert said == []


@pytest.mark.parametrize("language", LANGUAGES if ALL else ["en"])
def test_15_every_state(
    browser: Browser, browser_context_args: dict[str, Any], story: Story, language: str
) -> None:
    """In the middle of something, in trouble, empty: once, or with AXE=all in every look."""
    page = open_page(browser, browser_context_args, language, 1280)
    said = errors_of(page)
    enter(page.context, story.url, story.user)
    look = in_all_looks if ALL else faults_of
    faults = {name: look(page) for name in states(page, story)}
    page.context.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert [line for line in said if not NO_ANSWER.search(line)] == []


def open_page(browser: Browser, given: dict[str, Any], language: str, width: int) -> Page:
    size = {"width": width, "height": WIDTHS[width]}
    page = browser.new_context(**{**given, "locale": language, "viewport": size}).new_page()
    page.on("dialog", lambda dialog: dialog.accept())  # what was typed may go
    return page


def errors_of(page: Page) -> list[str]:
    """What the console says, but for the answers that are meant."""
    said: list[str] = []

    def listen(message: Any) -> None:
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            said.append(f"{page.url}: {message.text}")

    page.on("console", listen)
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    return said


def in_all_looks(page: Page) -> list[str]:
    found = []
    before = page.viewport_size
    for width, theme in product(WIDTHS, THEMES):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme=theme)
        found += [f"{width}, {theme}: {fault}" for fault in faults_of(page)]
    page.set_viewport_size(before)
    return found


def faults_of(page: Page) -> list[str]:
    # In the middle of a swap nothing is as it is going to be.
    expect(page.locator(AT_WORK)).to_have_count(0)
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished))")
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe_script())
    options = {
        "runOnly": {"type": "tag", "values": RULES},
        "resultTypes": ["violations"],
        "preload": False,  # style sheets of its own, which the policy would refuse
    }
    found: list[str] = page.evaluate(
        """async (options) => (await axe.run(options)).violations.flatMap(
            (fault) => fault.nodes.map(
                (node) => `${fault.id}: ${node.target} ${node.failureSummary}`))""",
        options,
    )
    return found


@cache
def axe_script() -> str:
    return str(Axe().axe_script)


def look_at(page: Page) -> list[str]:
    """The faults of a page that is on the screen."""
    return faults_of(page) + sideways(page)


def states(page: Page, story: Story) -> Iterator[str]:
    """Pages in the middle of something; each is on the screen when its name is given."""
    edit = story.at(f"/m/{story.memory.pk}/edit/")
    page.goto(edit)
    page.fill("#text", " ")
    page.click("button.primary")
    yield "edit-refused"
    page.goto(edit)
    page.fill("#text", "- Mine alone.")
    story.meanwhile("- Theirs.")
    page.click("button.primary")
    page.wait_for_selector(".conflict")
    yield "conflict"
    page.goto(story.channel)
    page.click("#memory .actions a[hx-get]")
    page.wait_for_selector("#text")
    yield "edit-in-place"
    page.route("**/edit/", lambda route: route.abort())
    page.click("#memory button.primary")
    page.wait_for_selector("#failed")
    yield "save-failed"
    page.unroute("**/edit/")
    page.click("#memory form button[formaction]")
    page.wait_for_selector("#preview .diff")
    yield "edit-changes"
    page.goto(edit)
    page.wait_for_selector("#offer .band")
    yield "edit-draft"
    page.goto(story.channel)
    page.click("#sources a")
    page.wait_for_selector("ul.sources")
    yield "sources-in-place"
    page.goto(story.at(f"/v/{story.version(1)}/"))
    page.click(".band button.primary")
    page.wait_for_selector(".toast")
    yield "restored"
    page.goto(story.at("/w/kazoe/notes/"))
    page.fill("#id_content", " ")
    page.click("#add button.primary")
    page.wait_for_selector("#add .error")
    yield "note-refused"
    page.goto(story.at(story.pages()["note-edit"]))
    page.fill("#id_content", "Mine alone.")
    Note.objects.live().latest("pk").rewrite("Theirs.", by=story.user)
    page.click("button.primary")
    page.wait_for_selector(".conflict")
    yield "note-conflict"
    page.goto(story.at("/w/kazoe/settings/"))
    page.fill("#id_retention_days", "30")
    page.click("main form.settings > .actions button")
    page.wait_for_selector("#removes")
    yield "settings-asked"
    page.goto(story.at("/w/kazoe/people/"))
    role = page.locator(f"#role-{story.user.pk}")
    role.select_option("editor")
    role.locator("xpath=..").get_by_role("button").click()
    page.wait_for_selector("#gives-up")
    yield "people-asked"
    page.goto(story.at("/w/kazoe/catch-up/"))
    page.locator(".entry form button").first.click()
    page.wait_for_selector(".entry.folded")
    yield "marked-seen"
    page.goto(story.at("/w/kazoe/search/?q=freeze"))
    yield "search-hits"
    page.goto(story.at("/w/kazoe/search/?q=nowhere+in%3Amessages"))
    yield "search-none"
    page.goto(story.channel)
    if page.is_visible(".topbar button"):
        page.click(".topbar button")
        yield "menu"
    running(story)
    page.goto(story.at("/w/kazoe/jobs/"))
    yield "jobs-running"
    job = Generation.objects.get(input_key="running")
    page.goto(story.at(f"/w/kazoe/jobs/{job.pk}/"))
    yield "job-running"
    page.goto(story.at(f"/m/{job.memory_id}/generate/?job={job.pk}"))
    yield "update-running"
    page.goto(story.at(f"/w/kazoe/backfill/{backfilling(story).pk}/"))
    yield "backfill-running"
    Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit")
    page.goto(story.channel)
    page.wait_for_selector(".banner")
    yield "out-of-credit"
    open_new(story)
    for rest in EMPTY:
        page.goto(story.at(f"/w/new/{rest}"))
        yield f"empty-{rest.strip('/').replace('/', '-') or 'workspace'}"
    page.goto(story.at("/"))
    yield "workspaces"


# Where nothing is to be done but on the form, or by the next pass, which the words say.
ITSELF = {"/w/new/context/", "/w/new/slack/"}


def test_30_every_empty_page_says_why_and_what_to_do(page: Page, story: Story) -> None:
    """A workspace in which nothing has happened, as its admin finds it, and lists with nothing in
    them: beside the reason stands what helps."""
    enter(page.context, story.url, story.user)
    open_new(story)
    paths = [f"/w/new/{rest}" for rest in EMPTY if rest != "people/"]  # there is always somebody
    lists = ("messages-empty", "threads-none", "notes-none", "search-none")
    for path in [*paths, *(story.pages()[name] for name in lists)]:
        page.goto(story.at(path))
        empty = page.locator("main .empty")
        assert (path, len(empty.first.inner_text()) > 25) == (path, True)
        where = page.locator("main") if path in ITSELF else empty
        offered = where.locator("a, button, code").locator("visible=true")
        assert (path, offered.count() > 0) == (path, True)


def open_new(story: Story) -> None:
    workspace = WorkspaceFactory(slug="new", name="New")
    MemberFactory(workspace=workspace, user=story.user, role="admin")


EMPTY = (
    "",
    "catch-up/",
    "search/",
    "notes/",
    "notes/trash/",
    "context/",
    "jobs/",
    "jobs/cost/",
    "backfill/",
    "people/",
    "slack/",
    "quarantine/",
)


def running(story: Story) -> None:
    """One job that runs, one that waits for an hour."""
    now = timezone.now()
    short = Memory.objects.of_channel(story.launch, MemoryType.SHORT_TERM)
    for key, given in {
        "running": {"state": "claimed", "lease_until": now + timedelta(minutes=5)},
        "waiting": {"not_before": now + timedelta(hours=1), "fault": "rate_limited"},
    }.items():
        Generation.objects.create(memory=short, as_of_us=0, input_key=key, **given)


def backfilling(story: Story) -> Backfill:
    """The order of the story, given again."""
    done, now = story.workspace.backfills.get(), timezone.now()
    return Backfill.objects.start(
        story.workspace,
        list(done.channels.all()),
        since_us=0,
        until_us=to_micros(now),
        quote=done.quote,
        by=story.user,
    )
