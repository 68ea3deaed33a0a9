"""Japanese is complete: pages, states, messages and error pages."""

import re

import pytest
from playwright.sync_api import Page
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.models import Channel, Person, Workspace
from tests.browser.conftest import enter
from tests.browser.page_states import states
from tests.browser.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.nightly("every look"), pytest.mark.timeout(600)]

# The texts of a page in its own language: texts, titles and labels, but no words of people.
TEXTS = """() => {
    const own = (one) => one.closest("[lang]").lang === "ja" && !one.closest("code, pre, textarea, #id_time_zone, .stretches [lang], .sources [lang]");
    const said = [document.title];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const one = walker.currentNode.parentElement;
        if (own(one) && !one.closest("script, style, noscript")) said.push(walker.currentNode.textContent);
    }
    for (const name of ["aria-label", "title", "placeholder", "alt"])
        for (const one of document.querySelectorAll(`[${name}]`))
            if (own(one)) said.push(one.getAttribute(name));
    return said.map((words) => words.replace(/\\s+/g, " ").trim()).filter(Boolean);
}"""
TIMES = """() => [...document.querySelectorAll("time")]
    .filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())"""
WORD = re.compile(r"[A-Za-z]{2,}")
# Addresses, commands, files of docs, scopes of Slack, and search queries.
NOT_WORDS = re.compile(
    r"https?://\S+|`[^`]*`|docs/\w+\.md|\b\w+:\w+[.\w]*|[A-Z]+(_[A-Z]+)+|…\w+|nowhere|freeze"
)
# Names are the same in every language.
NAMES = {
    *"Memory Hub Slack Ctrl Alt Command Enter Escape English API LLM JSON QR USD UTC Kazoe New Tokyo Asia".split(),
    *("in from by model person restore after before has link file code thread messages".split()),
    *("memories older notes threads mika me design".split()),
    *"Claude MCP API v1 docs memoryhub agent PC CI ID Slackbot memory digest memo slack com".split(),
    *"Remember this This is wrong api docs slack token set import gpt mini OpenAI lanch kind".split(),
    *"decision Who told the press Missing client id parameter".split(),  # a question, and words of oauthlib
    *("PIN ts Shift JIS make demo python manage py import_slack export zip tiny offline".split()),
}
IN_JAPANESE = re.compile(r"年|月|日|前|たった今|\d{1,2}:\d\d")


def test_japanese_is_complete(new_context: CreateContextCallback, story: Story) -> None:
    page = new_context(locale="ja").new_page()
    page.goto(story.at("/login/"))
    words = {"login": left_in_english(page, set())}
    enter(page.context, story.url, story.user)
    allowed = names(story)
    for name, path in story.pages().items():
        page.goto(story.at(path.partition("#")[0]))
        words[name] = left_in_english(page, allowed)
        words[name] |= {time for time in page.evaluate(TIMES) if not IN_JAPANESE.search(time)}
    for name in states(page, story):
        words[name] = left_in_english(page, allowed)
    for name, path in broken(story).items():
        page.goto(story.at(path))
        words[name] = left_in_english(page, allowed)
    assert {name: left for name, left in words.items() if left} == {}


def broken(story: Story) -> dict[str, str]:
    """Pages that are forbidden, and pages on which the server fails."""
    Workspace.objects.filter(slug="new").update(settings={"time_zone": "nowhere"})
    return {"forbidden": "/setup/", "error": "/w/new/catch-up/"}


def names(story: Story) -> set[str]:
    texts = [
        *Channel.objects.values_list("name", flat=True),
        *Person.objects.values_list("name", flat=True),
        story.user.get_full_name(),
        *story.memory.workspace.notes.values_list("title", flat=True),
    ]
    return {word for text in texts for word in WORD.findall(text)}


def left_in_english(page: Page, allowed: set[str]) -> set[str]:
    return {
        text
        for text in page.evaluate(TEXTS)
        if [
            word
            for word in WORD.findall(NOT_WORDS.sub("", text))
            if word not in NAMES and word not in allowed
        ]
    }
