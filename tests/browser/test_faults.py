"""Failures: typed text is kept, and pages describe the failure correctly."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_httpserver import HTTPServer
from time_machine import TimeMachineFixture

from memories.models import Backfill
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.generate.backfill import run_backfill
from memories.rules.ingest.timestamps import to_micros
from tests.browser.conftest import enter, sign_in
from tests.browser.story import LINES, Story
from tests.factories import ChannelFactory
from tests.llm.endpoint import FakeEndpoint, use_model
from tests.pipeline.generate.test_backfill import talk
from tests.pipeline.metered import Metered
from tests.processes import clean_environment, free_port, is_live, wait_until

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parent.parent.parent


class Mortal:
    """A web server of its own over the database of the test, to be frozen, killed and started."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.environment = clean_environment("PYTEST_") | {
            "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
            "MEMORYHUB_VAR": str(folder),
            "MEMORYHUB_DEBUG": "true",  # static files from where they lie
            "SECRET_KEY": django_settings.SECRET_KEY,
        }

    def start(self) -> None:
        with socket.create_server(("127.0.0.1", self.port)) as listener:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "memoryhub.web", str(listener.fileno())],
                cwd=ROOT,
                env=self.environment,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        wait_until(lambda: is_live(self.url), f"an answer at {self.url}")

    def freeze(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def mortal(story: Story, tmp_path: Path) -> Iterator[Mortal]:
    server = Mortal(tmp_path)
    server.start()
    story.url = server.url
    yield server
    server.kill()


@pytest.mark.nightly("kills a server of its own")
def test_a_server_killed_while_it_saves_loses_no_text(
    page: Page, story: Story, mortal: Mortal
) -> None:
    first = story.now
    sign_in(page, story)
    page.goto(story.channel)
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("- Typed and not lost.\n")
    mortal.freeze()
    page.click("text=Save as new version")
    expect(page.locator("#memory")).to_have_attribute("aria-busy", "true")
    mortal.kill()
    band = page.locator("#failed")
    expect(band).to_contain_text("what you typed is still here")
    expect(page.locator("#memory")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#text")).to_have_value(re.compile("Typed and not lost"))
    mortal.start()
    band.locator("text=Try again").click()
    expect(page.locator("#memory .lines")).to_contain_text("Typed and not lost.")
    expect(band).to_have_count(0)
    assert story.now == first + 1


@pytest.mark.nightly("kills a server of its own")
def test_a_server_killed_while_it_searches(page: Page, story: Story, mortal: Mortal) -> None:
    enter(page.context, story.url, story.user)
    page.goto(story.at("/w/kazoe/search/?q=freeze"))
    field, hits = page.get_by_role("searchbox"), page.locator(".hit")
    expect(hits.first).to_be_visible()
    before = hits.count()
    field.focus()
    page.keyboard.press("End")
    mortal.freeze()
    page.keyboard.type(" before")
    expect(page.locator("#results")).to_have_attribute("aria-busy", "true")
    mortal.kill()
    band = page.locator("#failed")
    expect(band).to_be_visible()
    expect(field).to_have_value("freeze before")
    expect(hits).to_have_count(before)
    mortal.start()
    band.locator("text=Try again").click()
    expect(page).to_have_url(re.compile("q=freeze(%20|[+])before"))
    expect(band).to_have_count(0)


def test_the_page_stays_after_a_sign_out(page: Page, story: Story) -> None:
    sign_in(page, story)
    page.goto(story.channel)
    page.context.clear_cookies()
    page.click("#memory >> text=Edit")
    expect(page.locator("#failed")).to_contain_text(
        "What you see and what you typed is still here."
    )
    expect(page.locator("#memory .lines")).to_be_visible()
    expect(page.locator("#id_password")).to_have_count(0)


def test_a_save_that_failed_is_tried_again(page: Page, story: Story) -> None:
    first = story.now
    sign_in(page, story)
    page.goto(story.channel)
    page.click("#memory >> text=Edit")
    page.locator("#text").press_sequentially("- Typed and not lost.\n")
    page.route("**/edit/", lambda route: route.abort())
    page.click("text=Save as new version")
    band = page.locator("#failed")
    expect(band).to_contain_text("what you typed is still here")
    expect(page.locator("#memory")).not_to_have_attribute("aria-busy", "true")
    page.unroute("**/edit/")
    band.locator("text=Try again").click()
    expect(page.locator("#memory .lines")).to_contain_text("Typed and not lost.")
    expect(band).to_have_count(0)
    assert story.now == first + 1


@pytest.fixture
def model(settings: Settings, httpserver: HTTPServer) -> FakeEndpoint:
    use_model(settings, httpserver, "of-no-price")
    return FakeEndpoint(httpserver)


@pytest.mark.nightly("a long walk")
def test_progress_and_cost_are_honest(page: Page, story: Story, model: FakeEndpoint) -> None:
    """The cost is shown before the work begins. A model without a price is not shown as free. No
    time is shown before a measurement. Missing credit is reported.
    """
    sign_in(page, story)
    page.goto(story.at("/w/kazoe/backfill/"))
    page.locator("summary", has_text="Choose channels").click()
    page.get_by_label("beta-testers").check()
    page.get_by_role("button", name="Estimate the cost").click()
    estimate = page.locator("#estimate")
    expect(estimate.locator("tfoot")).to_contain_text("unpriced")
    expect(estimate).to_contain_text("This model has not been measured yet")
    expect(estimate).not_to_contain_text("$")
    estimate.get_by_role("button", name="Start without a limit").click()
    progress = page.locator("#progress")
    expect(progress).to_contain_text("running", ignore_case=True)
    expect(progress.locator("dl")).to_contain_text("unpriced")
    expect(progress).not_to_contain_text("remaining: about")
    expect(progress).not_to_contain_text("$")

    model.reply_with(f"{LINES[0]} [1]")
    call_command("run_pass", verbosity=0)
    expect(progress.locator("progress").first).not_to_have_attribute("value", "0")
    expect(progress).not_to_contain_text("$")
    page.goto(story.at("/w/kazoe/jobs/cost/"))
    expect(page.locator("main")).to_contain_text("without a price")
    expect(page.locator("main")).not_to_contain_text(re.compile(r"\$0(?![.\d])"))


RUNS, AT_LEAST = 10, 8
STILL = re.compile(r"<dt>remaining: about</dt><dd>([\d.]+) – ([\d.]+) min</dd>")


@pytest.mark.nightly("carries out ten backfills")
@pytest.mark.timeout(600)
def test_remaining_time_is_shown_correctly(
    story: Story,
    settings: Settings,
    httpserver: HTTPServer,
    time_machine: TimeMachineFixture,
    client: Client,
) -> None:
    """Ten runs against a model that takes 4 to 15 seconds.

    No time is shown in the first half minute. At least eight runs end within the first shown range.
    The clock is moved, so the test does not wait.
    """
    use_model(settings, httpserver)
    settings.MEMORYHUB_LLM_CONCURRENCY = 1
    model = Metered(httpserver)
    time_machine.move_to(timezone.now())
    client.force_login(story.user)
    chance = random.Random(25)
    kept, early = 0, []
    for run in range(RUNS):
        usual = chance.uniform(4, 15)
        model.before = lambda _, usual=usual: time_machine.shift(usual * chance.uniform(0.4, 1.6))
        backfill = ordered(story, f"run-{run}")
        path = f"/w/kazoe/backfill/{backfill.pk}/"
        began = timezone.now()
        promises: list[tuple[float, float, float]] = []

        def look(path: str = path, began: datetime = began, promises: Any = promises) -> None:
            if promises or (timezone.now() - began).total_seconds() < 5:
                return
            if promised := STILL.search(client.get(path).content.decode()):
                seconds = (timezone.now() - began).total_seconds()
                promises.append((seconds, *(60 * float(end) for end in promised.groups())))

        assert run_backfill(backfill, look) == ""
        [(at, least, most)] = promises
        early += [at] if at < 30 else []
        left = (timezone.now() - began).total_seconds() - at
        kept += least - 3 <= left <= most + 3  # it is shown in tenths of a minute
    assert early == []
    assert kept >= AT_LEAST


def ordered(story: Story, name: str) -> Backfill:
    """A backfill of a channel of its own, with fifteen conversations."""
    channel = ChannelFactory(workspace=story.workspace, name=name)
    for day in range(15):
        talk(channel, day)
    now = timezone.now()
    estimate = estimate_backfill(story.workspace, [channel], 0, now).as_json()
    return Backfill.objects.start(
        story.workspace,
        [channel],
        since_us=0,
        until_us=to_micros(now),
        estimate=estimate,
        by=story.user,
    )
