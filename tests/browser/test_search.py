"""Search while typing: hits without a page load, and addresses that can be kept and come back to."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from memories.models import Message
from memories.pipeline.search import indexing
from tests.browser.conftest import sign_in
from tests.browser.story import Story
from tests.browser.team import OTHER_WORD, PROSE, WORD, Team

pytestmark = pytest.mark.browser


def found_by(story: Story) -> Message:
    message = Message.objects.filter(channel=story.launch, thread_ts="").order_by("-micros").first()
    assert message is not None
    Message.objects.filter(pk=message.pk).update(text="来月のデータ鯨肉計画", is_notice=False)
    indexing.index_pending()
    return message


@pytest.mark.nightly("in the large team")
def test_back_restores_the_search(page: Page, team: Team, complaints: list[str]) -> None:
    """The same address, field, filter and hits, and the same place on the page."""
    sign_in(page, team)
    page.goto(team.at("/w/kazoe/search/"))
    field, hits = page.get_by_role("searchbox"), page.locator(".hit")
    field.press_sequentially("移行", delay=30)
    expect(page.locator("#results-count")).to_contain_text("results in")
    page.get_by_label("Where").select_option("messages")
    expect(page).to_have_url(re.compile("in=messages"))
    expect(page.locator("#found-messages")).to_be_visible()
    address, texts = page.url, hits.all_inner_texts()
    assert len(texts) > 10
    hit = hits.nth(len(texts) - 2).locator("a").first
    hit.scroll_into_view_if_needed()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 100
    hit.click()
    expect(page.locator(".message").first).to_be_visible()
    page.go_back()
    expect(hits).to_have_count(len(texts))
    assert page.url == address
    expect(field).to_have_value("移行")
    expect(page.get_by_label("Where")).to_have_value("messages")
    assert hits.all_inner_texts() == texts
    page.wait_for_function("at => Math.abs(scrollY - at) <= 50", arg=scrolled)


@pytest.mark.nightly("no script of ours takes part")
def test_typing_adds_no_history_entries(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.goto(story.at("/w/kazoe/search/"))
    expect(page.get_by_role("searchbox")).to_be_focused()
    before = page.evaluate("history.length")
    typed = "frozenbuil"
    for end in range(1, len(typed) + 1):
        with page.expect_response(lambda answer: "?q=" in answer.url):
            page.keyboard.type(typed[end - 1])
    expect(page).to_have_url(re.compile(f"q={typed}"))
    assert page.evaluate("history.length") == before
    page.go_back()
    expect(page).to_have_url(story.channel)


KEEP = """
for (const name of ["pushState", "replaceState"]) {
    const real = history[name].bind(history);
    history[name] = (state, title, url) => {
        if (url) window.kept(new URL(url, location).href);
        return real(state, title, url);
    };
}
"""


@pytest.mark.nightly("a long walk")
def test_every_address_that_is_pushed_is_a_page(page: Page, story: Story) -> None:
    """Addresses that pages push to the address bar open as whole pages in another tab."""
    kept: list[str] = []
    page.expose_function("kept", lambda url: kept.append(url))  # noqa: PLW0108  a Python function
    page.add_init_script(KEEP)
    sign_in(page, story)

    page.get_by_label("7 days").check()
    page.get_by_role("button", name="Go", exact=True).click()
    expect(page).to_have_url(re.compile("since=7d"))
    page.goto(story.at("/w/kazoe/search/"))
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("freeze")
    expect(page).to_have_url(re.compile("q=freeze"))
    page.get_by_label("Where").select_option("messages")
    expect(page).to_have_url(re.compile("in=messages"))
    page.goto(story.at("/w/kazoe/notes/"))
    page.locator("#q").press_sequentially("整数")
    expect(page).to_have_url(re.compile("notes/.q="))
    page.goto(story.at("/w/kazoe/context/"))
    page.get_by_label("Token limit").fill("4000")
    page.get_by_role("button", name="Show the context").click()
    expect(page).to_have_url(re.compile("budget=4000"))
    page.locator("#leave-long_term").click()
    expect(page).to_have_url(re.compile("without=long_term"))
    page.goto(story.at(f"/diff/{story.version(2)}..{story.version(3)}/"))
    page.get_by_role("link", name="Side by side").click()
    expect(page).to_have_url(re.compile("view=split"))
    page.locator(f"[name=from][value='{story.version(1)}']").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("h1")).to_have_text("v1 to v3")
    page.goto(story.at(f"/v/{story.version(2)}/"))
    page.click("text=Restore v2")
    expect(page.locator("#toast")).to_contain_text("was restored as")

    assert len({url.partition("?")[0] for url in kept}) >= 6
    pair = f"/diff/{story.version(1)}..{story.version(3)}/"
    assert any("without=" in url for url in kept) and story.at(f"{pair}?view=split") in kept
    tab = page.context.new_page()
    for url in dict.fromkeys(kept):
        answer = tab.goto(url)
        assert answer is not None
        assert (url, answer.status) == (url, 200)
        assert answer.text().startswith("<!doctype html>")
        expect(tab.locator("h1")).to_be_visible()
        expect(tab.locator("#nav")).to_be_visible()


@pytest.mark.nightly("in the large team")
def test_a_japanese_word_is_compared_and_found(page: Page, team: Team) -> None:
    """One word of two hundred unspaced characters: at most 12 are marked. Two characters find the
    message and the memory that hold them in their midst."""
    assert len(PROSE) >= 200 and " " not in PROSE
    head = team.prose.head
    pair = [team.prose.versions.get(number=n).pk for n in (head - 1, head)]
    sign_in(page, team)
    page.goto(team.at(f"/diff/{pair[0]}..{pair[1]}/"))
    marked = page.locator(".diff ins, .diff del").all_inner_texts()
    assert {WORD, OTHER_WORD} <= set(marked)
    assert len("".join(marked)) <= 12
    page.goto(team.at("/w/kazoe/search/"))
    page.get_by_role("searchbox").press_sequentially("移行")
    for kind in ("messages", "memories"):
        hit = page.locator(f"section[aria-labelledby=found-{kind}] .hit mark").first
        expect(hit).to_have_text("移行")


def test_results_appear_while_typing(page: Page, story: Story, complaints: list[str]) -> None:
    message = found_by(story)
    sign_in(page, story)
    page.goto(story.at(f"/w/{story.workspace.slug}/search/"))
    page.get_by_role("searchbox").press_sequentially("鯨肉", delay=30)
    expect(page.locator(".hit mark")).to_have_text("鯨肉")
    expect(page.locator("#results-count")).to_contain_text("1 result in")
    expect(page).to_have_url(re.compile(re.escape(quote("鯨肉"))))
    page.get_by_label("Where").select_option("notes")
    expect(page.locator("#results")).to_contain_text("No results in what you can access.")
    expect(page).to_have_url(re.compile("in=notes"))
    page.go_back()
    expect(page.locator(".hit mark")).to_have_text("鯨肉")
    page.locator(".hit a").click()
    expect(page.locator(f'[id="msg-{message.ts}"]')).to_be_visible()
