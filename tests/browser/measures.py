"""What a page on the screen measures: whether axe finds faults, and whether the page fits, keeps
still, and can be hit."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import CDPSession, Page, Route, expect

from tests.browser.looks import THEMES, WIDTHS

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AT_WORK = ".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added"
SHIFT = 0.02
FINE, COARSE = 24, 44  # CSS px

WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifted += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""


PAINTED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
RUN_AXE = """async (options) => (await axe.run(options)).violations.flatMap(
    (violation) => violation.nodes.map(
        (node) => `${violation.id}: ${node.target} ${node.failureSummary}`))"""
AXE_OPTIONS = {
    "runOnly": {"type": "tag", "values": RULES},
    "resultTypes": ["violations"],
    "preload": False,  # axe would load style sheets of its own, which the policy refuses
}


def axe_faults(page: Page) -> list[str]:
    """Return the faults that axe finds, as soon as no swap and no animation is running."""
    expect(page.locator(AT_WORK)).to_have_count(0)
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished))")
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe_script())
    faults: list[str] = page.evaluate(RUN_AXE, AXE_OPTIONS)
    return faults


@cache
def axe_script() -> str:
    return str(Axe().axe_script)


def look_at(page: Page) -> list[str]:
    """The faults of the page in its present look."""
    return axe_faults(page) + sideways(page)


def axe_in_all_looks(page: Page) -> list[str]:
    """Return the faults that axe finds in each width and theme."""
    faults = []
    size = page.viewport_size
    assert size is not None
    for width, theme in product(WIDTHS, THEMES):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme=theme)
        faults += [f"{width}, {theme}: {fault}" for fault in axe_faults(page)]
    page.set_viewport_size(size)
    return faults


def shifts(page: Page) -> list[str]:
    """Of a page that was loaded with WATCH."""
    page.evaluate(PAINTED)
    moved = page.evaluate("shifted")
    return [f"shifted by {moved:.3f}"] if moved >= SHIFT else []


def sideways(page: Page) -> list[str]:
    is_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return ["scrolls sideways"] if is_wide else []


SPACED = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: .12em !important;
        word-spacing: .16em !important } p { margin-block-end: 2em !important }`);
    document.adoptedStyleSheets = [sheet];
}"""
# Words of a control that do not fit into it.
CUT = """() => [...document.querySelectorAll("a, button, label, .badge, h1, h2, p")]
    .filter((one) => one.checkVisibility() && !one.closest("pre, .scroll, .hidden, .skip"))
    .filter((one) => ["hidden", "clip"].includes(getComputedStyle(one).overflowX)
        && one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.outerHTML.slice(0, 120))"""


def too_narrow(page: Page) -> list[str]:
    """Wider than the window, as it is or spaced as WCAG 1.4.12 has it; or a heading that comes late."""
    problems = []
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 640})
        problems += sideways(page)
        top = page.evaluate("document.querySelector('h1').getBoundingClientRect().top")
        if width == 320 and top + page.evaluate("scrollY") > 120:
            problems.append("h1 comes late")
        page.evaluate(SPACED)
        problems += [f"spaced, {width}: {fault}" for fault in sideways(page) + page.evaluate(CUT)]
        page.evaluate("() => { document.adoptedStyleSheets = [] }")
    return problems


SMALL = """(size) => [...document.querySelectorAll(
        "a[href], button, input:not([type=hidden]), select, textarea, summary")]
    .filter((one) => one.checkVisibility({visibilityProperty: true, opacityProperty: true}))
    .filter((one) => !one.closest(".hidden, .skip, .line-text, .message-text, .band p, .hint"))
    .map((one) => {
        // A radio's or a checkbox's words belong to it; a field's stand above it.
        const boxes = [one, ...one.matches("[type=radio], [type=checkbox]") ? one.labels : []]
            .map((part) => part.getBoundingClientRect());
        const [least, most] = [(side) => Math.min(...boxes.map((box) => box[side])),
            (side) => Math.max(...boxes.map((box) => box[side]))];
        // What is drawn around it and belongs to it (::before, ::after) takes clicks, too.
        let [wide, high] = [most("right") - least("left"), most("bottom") - least("top")];
        for (const part of ["::before", "::after"]) {
            const style = getComputedStyle(one, part);
            if (style.content === "none" || style.position !== "absolute") continue;
            wide = Math.max(wide, parseFloat(style.width) || 0);
            high = Math.max(high, parseFloat(style.height) || 0);
        }
        // A link in a sentence is as high as its line.
        const words = [...one.parentElement.childNodes].some(
            (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim().length > 1);
        const sentence = one.tagName === "A" && words
            && getComputedStyle(one).display.startsWith("inline");
        return [sentence || (wide >= size - .5 && high >= size - .5), one, wide, high];
    })
    .filter(([fits]) => !fits)
    .map(([_, one, wide, high]) =>
        `${wide.toFixed()}x${high.toFixed()} ${one.outerHTML.slice(0, 140)}`)"""


def too_small(page: Page) -> list[str]:
    """Targets under a mouse, and under a finger: these in a wide window and in a narrow one."""
    problems = [f"for a mouse: {target}" for target in page.evaluate(SMALL, FINE)]
    with finger(page):
        for width in (320, 1280):
            page.set_viewport_size({"width": width, "height": 640})
            problems += [
                f"for a finger, {width}: {target}" for target in page.evaluate(SMALL, COARSE)
            ]
    return problems


def delay_scripts(page: Page) -> None:
    """Load our script after the page was painted, as on a slow network."""

    def load_after_paint(route: Route) -> None:
        page.evaluate(PAINTED)
        route.continue_()

    page.route("**/memories/app*.js", load_after_paint)


@contextmanager
def finger(page: Page) -> Iterator[None]:
    tools: CDPSession = page.context.new_cdp_session(page)  # the emulation ends with it
    tools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page.wait_for_function("matchMedia('(pointer: coarse)').matches")
    try:
        yield
    finally:
        tools.detach()
