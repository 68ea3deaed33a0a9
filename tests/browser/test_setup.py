"""The pages of the first steps: an export is uploaded, looked into and imported in a browser."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect
from pytest_django.live_server_helper import LiveServer
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import Message, Upload, User
from memories.tasks import import_upload
from tests.browser.conftest import enter, sign_in
from tests.browser.looks import LOOKS
from tests.browser.measures import look_at
from tests.browser.states import States
from tests.browser.story import Story
from tests.browser.test_japanese import left_in_english, names
from tests.browser.test_keyboard import to
from tests.factories import UserFactory
from tests.slackexports import channel, export_files, slack_message, write_zip

pytestmark = pytest.mark.browser

FILES = export_files(
    {
        "general/2023-11-14": [slack_message(n, f"message {n}") for n in range(30)],
        "general/2023-11-15": json.dumps([slack_message(90_000, "cut")])[:-9],
        "salaries/2023-11-14": [slack_message(5, "a secret")],
    },
    groups=[channel("G1", "salaries")],
)

COUNT_TAB_STOPS = """[...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
    .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility())
    .filter(e => e.type !== 'radio' || e.checked).length"""  # one stop for all of a choice


@pytest.mark.timeout(400)
def test_a_first_run_leads_to_the_demo(
    page: Page, states: States, live_server: LiveServer, complaints: list[str]
) -> None:
    """From an empty database in two interactions. (The button says about how long it takes, which
    is the machine's; test_pages.py covers the empty pages.)"""
    operator = UserFactory(is_staff=True, is_superuser=True)
    enter(page.context, live_server.url, operator)
    page.goto(live_server.url)
    page.get_by_role("link", name="First steps").click()
    page.get_by_role("button", name="Create the demo").click()
    page.wait_for_url("**/w/demo/catch-up/", timeout=300_000)
    expect(page.locator(".opening li").first).to_be_visible()
    # A week of it is a briefing: two screens, and few stops of the Tab key.
    enter(page.context, live_server.url, User.objects.get(username="demo"))
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{live_server.url}/w/demo/catch-up/?since=7d")
    assert len(page.locator("main").inner_text().split()) <= 400
    assert page.evaluate("document.documentElement.scrollHeight") <= 2 * 900
    assert page.evaluate(COUNT_TAB_STOPS) <= 60
    week = timezone.now() - timedelta(days=8)  # the page shows days
    for shown in page.locator(".opening time, .entry .line-text time").all():
        assert datetime.fromisoformat(shown.get_attribute("datetime") or "") >= week


@pytest.fixture
def operator(story: Story) -> Story:
    story.user.is_superuser = True
    story.user.save()
    return story


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "our export.zip", FILES)


def upload(page: Page, story: Story, export: Path, slug: str) -> Upload:
    page.goto(story.at("/setup/import/"))
    page.fill("#id_slug", slug)
    page.set_input_files("#id_export", export)
    page.click("#upload button")
    page.wait_for_url(story.at("/setup/import/*/"))
    return Upload.objects.latest("pk")


@pytest.mark.nightly("a long walk")
def test_an_import_without_javascript(plain: BrowserContext, operator: Story, export: Path) -> None:
    page = plain.new_page()
    sign_in(page, operator)
    upload_ = upload(page, operator, export, "ours")
    import_upload(upload_.pk)
    page.goto(operator.at(f"/setup/import/{upload_.pk}/"))
    page.click("button[value=start]")
    import_upload(upload_.pk)
    page.goto(operator.at(f"/setup/import/{upload_.pk}/"))
    expect(page.get_by_role("heading", name="Imported, with items left out")).to_be_visible()


@pytest.mark.nightly("a long walk")
def test_an_import_by_keyboard_alone(
    page: Page, operator: Story, export: Path, complaints: list[str]
) -> None:
    sign_in(page, operator)
    page.goto(operator.at("/setup/"))
    to(page, page.locator("section[aria-labelledby=import-title] a.button"), "Enter")
    page.wait_for_url(operator.at("/setup/import/"))
    with page.expect_file_chooser() as chosen:
        to(page, page.locator("#id_export"), "Enter")
    chosen.value.set_files(export)
    to(page, page.locator("#id_slug"), back=True)
    page.keyboard.press("Control+a")
    page.keyboard.type("typed")
    to(page, page.locator("#upload button"), "Enter")
    page.wait_for_url(operator.at("/setup/import/*/"))
    imported = Upload.objects.latest("pk")
    import_upload(imported.pk)
    start = page.get_by_role("button", name="Import", exact=True)
    start.wait_for()  # the page polls
    to(page, start, "Space")
    expect(page.get_by_role("heading", name="Importing")).to_be_visible()
    import_upload(imported.pk)
    catch_up = page.locator("main").get_by_role("link", name="Catch up")
    catch_up.wait_for()
    to(page, catch_up, "Enter")
    page.wait_for_url(operator.at("/w/typed/catch-up/"))
    assert Message.objects.filter(channel__workspace__slug="typed").count() == 31


@pytest.mark.nightly("a long walk")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("look", LOOKS)
def test_pages_of_operators(
    new_context: CreateContextCallback, operator: Story, export: Path, look: str
) -> None:
    """axe finds nothing in both themes, and nothing scrolls sideways."""
    page = new_context(**LOOKS[look]).new_page()
    sign_in(page, operator)
    upload_some(page, operator, export)
    faults = {}
    for name, path in operator.operators_pages().items():
        page.goto(operator.at(path))
        faults[name] = look_at(page)
    assert {name: problems for name, problems in faults.items() if problems} == {}


@pytest.mark.nightly("a long walk")
def test_the_first_steps_are_japanese_too(
    new_context: CreateContextCallback, operator: Story, export: Path
) -> None:
    page = new_context(locale="ja").new_page()
    sign_in(page, operator)
    upload_some(page, operator, export)
    allowed, words = {*names(operator), "general", "salaries", "our", "GB", "KB"}, {}
    for name, path in operator.operators_pages().items():
        page.goto(operator.at(path))
        words[name] = left_in_english(page, allowed)
    assert len(words) > 5
    assert {name: problems for name, problems in words.items() if problems} == {}


def upload_some(page: Page, operator: Story, export: Path) -> None:
    """One in each state."""
    for slug, steps in (("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 2)):
        imported = upload(page, operator, export, slug)
        if steps >= 1:
            import_upload(imported.pk)
        if steps >= 2:
            page.goto(operator.at(f"/setup/import/{imported.pk}/"))
            page.click("button[value=start]")
        if steps >= 3:
            import_upload(imported.pk)
    Upload.objects.filter(slug="a").update(state="failed", fault="wrong_team")
    Upload.objects.filter(slug="e").update(state="paused", seen=14, objects_read={"C1": 12})
