"""Contrast, shapes beside colours, narrow and spaced text, targets, theme, language."""

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import enter, sign_in
from tests.browser.looks import THEMES
from tests.browser.story import Story, fail_a_job

pytestmark = [pytest.mark.browser, pytest.mark.nightly("every look")]

TEXT, GRAPHICS = 4.5, 3.0
GROUNDS = ("bg", "surface", "inset", "nav")
# Foreground and background by the names of the style sheet. axe checks texts at rest only.
TEXTS = [
    *((ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in GROUNDS),
    *(("ink", ground) for ground in ("mark", "soft", "human-soft", "ok-soft", "danger-soft")),
    *(("accent", ground) for ground in (*GROUNDS, "soft")),
    ("on-accent", "accent"),
    ("on-danger", "danger"),
    *((name, f"{name}-soft") for name in ("human", "ok", "danger")),
    ("ins-ink", "ins"),
    ("del-ink", "del"),
]
CONTROLS = [
    *((line, ground) for line in ("edge", "focus") for ground in GROUNDS),
    *((f"c{n}", ground) for n in range(1, 7) for ground in ("surface", "inset")),
]

# The relative luminance of WCAG, of colours as the browser draws them.
RATIO = """
const channels = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
        const part = value / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
};
const over = (top, below) => {
    const part = top[3] / 255;
    return top.slice(0, 3).map((value, i) => value * part + below[i] * (1 - part));
};
const ground = (one) => {
    const layers = [channels(getComputedStyle(one, "::before").backgroundColor)];
    for (let at = one; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour[3]) layers.push(colour);
        if (colour[3] === 255) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
"""


@pytest.mark.parametrize("theme", THEMES)
def test_contrast_of_every_pair_of_colours(page: Page, story: Story, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(story.at("/login/"))
    measured = page.evaluate(
        f"""(pairs) => {{ {RATIO}
            const style = getComputedStyle(document.documentElement);
            const named = (name) => channels(style.getPropertyValue(`--${{name}}`).trim());
            return pairs.map(([top, below]) => ratio(named(top), named(below)));
        }}""",
        [*TEXTS, *CONTROLS],
    )
    required = [TEXT] * len(TEXTS) + [GRAPHICS] * len(CONTROLS)
    pairs = zip([*TEXTS, *CONTROLS], measured, required, strict=True)
    assert [(pair, round(ratio, 2)) for pair, ratio, least in pairs if ratio < least] == []


CONTROL = "main a, main button, nav a, nav button, summary"


@pytest.mark.parametrize("theme", THEMES)
def test_contrast_under_the_pointer_and_switched_off(page: Page, story: Story, theme: str) -> None:
    """One control of each kind on the busiest pages, hovered; buttons also disabled."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    sign_in(page, story)
    poor: list[str] = []
    kinds_seen: set[str] = set()
    for name in ("catch-up", "channel", "version", "notes", "note-purge", "messages"):
        page.goto(story.at(story.pages()[name].partition("#")[0]))
        kinds = page.evaluate(
            """(control) => [...document.querySelectorAll(control)].map((one, i) => {
                const kind = [one.tagName, one.className, one.parentElement.className].join(" ");
                return [i, one.checkVisibility() && one.innerText.trim() ? kind : ""];
            })""",
            CONTROL,
        )
        for i, kind in kinds:
            if not kind or kind in kinds_seen:
                continue
            kinds_seen.add(kind)
            control = page.locator(CONTROL).nth(i)
            control.hover(force=True)
            poor += [
                f"{name}: {kind} {round(ratio, 2)}" for ratio in [contrast(control)] if ratio < TEXT
            ]
            if kind.startswith("BUTTON"):
                control.evaluate("one => { one.disabled = true }")
                poor += [f"{name}: {kind} off" for ratio in [contrast(control)] if ratio < TEXT]
    assert len(kinds_seen) > 20
    assert poor == []


def contrast(control: Any) -> float:
    ratio: float = control.evaluate(
        f"(one) => {{ {RATIO} return ratio(channels(getComputedStyle(one).color), ground(one)); }}"
    )
    return ratio


def test_not_by_colour_alone(page: Page, story: Story) -> None:
    """Author, change, source, state and chart have a shape or a word, too."""
    sign_in(page, story)
    pages = story.pages()
    page.goto(story.at(pages["versions"]))
    shapes = page.locator(".author-icon use").evaluate_all(
        "all => all.map(one => one.getAttribute('href'))"
    )
    assert len(set(shapes)) == 3  # the model, a person, a restore
    page.goto(story.at(f"/v/{story.version(7)}/"))
    expect(page.locator(".line-side b").first).to_be_visible()
    for older, newer, tag, line in ((6, 7, "ins", "underline"), (7, 8, "del", "line-through")):
        page.goto(story.at(f"/diff/{story.version(older)}..{story.version(newer)}/"))
        drawn = page.locator(f".diff {tag}").first.evaluate(
            """one => { const style = getComputedStyle(one);
                return style.textDecorationLine
                    + (parseFloat(style.borderBottomWidth) > 0 ? " underline" : ""); }"""
        )
        assert line in drawn
        signs = {"ins": {"+", "±"}, "del": {"−", "±"}}[tag]
        assert signs & set(page.locator(".diff .diff-sign").all_inner_texts())
    page.goto(story.at(pages["messages"]))
    expect(page.locator(".message.source .source-tag").first).to_contain_text("source")
    fail_a_job(story.memory)
    page.goto(story.at(pages["jobs"]))
    statuses = page.locator(".status").evaluate_all(
        "all => all.map(one => [one.innerText.trim(), one.querySelector('use')?.getAttribute('href')])"
    )
    by_word = dict(statuses)
    assert len(by_word) > 1 and all(word and shape for word, shape in statuses)
    assert len(set(by_word.values())) == len(by_word)
    page.goto(story.at(pages["context"]))
    bars = page.locator(".budget rect[class^=part-]").count()
    assert bars and page.locator("tbody .key").count() == bars


def test_texts_side_by_side_where_there_is_room(page: Page, story: Story) -> None:
    """Else one text; the changes in words lead to the one that is there."""
    sign_in(page, story)
    page.goto(story.at(story.pages()["compare-split"]))
    for width, shown, hidden in ((960, ".split", ".unsplit .diff"), (959, ".diff", ".split")):
        page.set_viewport_size({"width": width, "height": 640})
        expect(page.locator(shown)).to_be_visible()
        expect(page.locator(hidden)).to_be_hidden()
        links = page.locator(".changes a[href^='#'] >> visible=true")
        expect(links).to_have_count(page.locator(".changes > li").count())
        links.last.click()
        expect(page.locator(f"{shown} :target")).to_be_in_viewport()


def test_theme_and_language_stick_without_javascript(plain: BrowserContext, story: Story) -> None:
    """With JavaScript: test_journey.py."""
    page = plain.new_page()
    enter(plain, story.url, story.user)
    page.goto(story.channel)
    for words in ("Dark", "日本語"):
        page.click(f"nav >> text={words}")
    for _ in range(2):
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("html")).to_have_attribute("lang", "ja")
        page.reload()
