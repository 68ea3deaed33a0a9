"""Twelve pictures of the demo, to be looked at: `make screenshots` leaves them in var/screenshots.

The README shows four of them, which are in docs/.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer
from pytest_playwright.pytest_playwright import CreateContextCallback

from memories.demo.workspace import DEMO_OPERATOR, DEMO_USER
from memories.models import Heartbeat, Memory, User, Workspace
from memories.rules.memory.identity import MemoryType
from tests.browser.conftest import enter
from tests.browser.looks import LOOKS
from tests.browser.measures import AT_WORK
from tests.browser.states import States

pytestmark = pytest.mark.browser

PICTURES = Path(settings.BASE_DIR) / "var" / "screenshots"


@dataclass(frozen=True)
class Picture:
    """A page in a look. ``height`` cuts it, 0 takes the whole page."""

    name: str
    path: str
    look: str = "light"
    user: str = DEMO_USER
    height: int = 0


def chosen_pictures() -> list[Picture]:
    workspace = Workspace.objects.get()
    launch = workspace.channels.get(name="launch")
    memory = Memory.objects.of_channel(launch, MemoryType.LONG_TERM)
    newer, older = memory.versions.order_by("-number").values_list("pk", flat=True)[:2]
    slug, channel = f"/w/{workspace.slug}", f"/w/{workspace.slug}/c/{launch.slack_id}"
    return [
        Picture("catch-up", f"{slug}/catch-up/?since=7d"),
        Picture("catch-up-dark", f"{slug}/catch-up/?since=7d", "dark"),
        Picture("workspace", f"{slug}/"),
        Picture("channel", f"{channel}/", height=900),
        Picture("narrow", f"{channel}/", "narrow-ja", height=640),
        Picture("messages", f"{channel}/messages/?v={newer}", height=900),
        Picture("compare", f"/diff/{older}..{newer}/", "dark", height=640),
        Picture("wrong", f"/m/{memory.pk}/lines/0/edit/?wrong=1"),
        Picture("search", f"{slug}/search/?q=launch", height=900),
        Picture("context", f"{slug}/context/?channel={launch.slack_id}"),
        Picture("settings", f"{slug}/settings/", user=DEMO_OPERATOR),
        Picture("jobs-ja", f"{slug}/jobs/", "ja"),
    ]


@pytest.mark.timeout(900)
def test_pictures(
    new_context: CreateContextCallback, states: States, live_server: LiveServer
) -> None:
    call_command("demo", serve=False)
    Heartbeat.objects.beat("worker", timezone.now())
    PICTURES.mkdir(parents=True, exist_ok=True)
    for picture in chosen_pictures():
        page = new_context(**LOOKS[picture.look]).new_page()
        enter(page.context, live_server.url, User.objects.get(username=picture.user))
        size = page.viewport_size
        assert size is not None
        if picture.height:
            page.set_viewport_size({"width": size["width"], "height": picture.height})
        answer = page.goto(f"{live_server.url}{picture.path}")
        assert answer is not None and answer.ok, picture
        expect(page.locator(AT_WORK)).to_have_count(0)
        file = PICTURES / f"{picture.name}.png"
        page.screenshot(path=file, full_page=not picture.height)
        page.close()
