"""Pages in the middle of something, in trouble, or empty.

Each function of `STATES` brings one state after another on the screen and yields its name.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from django.utils import timezone
from playwright.sync_api import Page

from memories.models import Backfill, Endpoint, Job, Memory, Note
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.browser.story import Story
from tests.factories import MemberFactory, WorkspaceFactory

EMPTY = (
    "",
    "catch-up/",
    "search/",
    "ask/",
    "notes/",
    "notes/trash/",
    "keys/",
    "context/",
    "jobs/",
    "jobs/cost/",
    "backfill/",
    "people/",
    "invitations/",
    "slack/",
    "quarantine/",
    "proposals/",
)


def editing(page: Page, story: Story) -> Iterator[str]:
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
    page.click("#memory-text-0")
    page.wait_for_selector("#memory .line-form form")
    yield "line-in-place"
    page.fill("#memory .line-form textarea", " ")
    page.click("#memory .line-form button.primary")
    page.wait_for_selector("#memory .line-form .band.danger")
    yield "line-refused"
    page.goto(f"{story.channel}?since=7d")
    yield "channel-since"
    page.goto(story.channel)
    page.click("#sources a")
    page.wait_for_selector("ul.sources")
    yield "sources-in-place"
    page.goto(story.at(f"/v/{story.version(1)}/"))
    page.click(".band button.primary")
    page.wait_for_selector(".toast")
    yield "restored"


def sending_forms(page: Page, story: Story) -> Iterator[str]:
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
    page.goto(story.at("/w/kazoe/invitations/"))
    page.click("form.settings button")
    page.wait_for_selector("#link")
    yield "invitation-made"
    page.goto(story.at(urlsplit(page.locator("#link").inner_text()).path))
    yield "invitation-open"
    page.goto(story.at("/w/kazoe/settings/"))
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette [role=option]")
    yield "palette"
    page.goto(story.at("/w/kazoe/catch-up/"))
    page.locator(".entry summary").first.click()
    page.wait_for_selector(".entry details[open]")
    yield "catch-up-open"
    page.locator(".entry form button").first.click()
    page.wait_for_selector(".entry.folded")
    yield "marked-seen"
    page.goto(story.at("/w/kazoe/search/?q=nowhere+in%3Amessages"))
    yield "search-none"
    page.goto(story.at("/settings/"))
    page.click("form[action='/settings/feed/'] button")
    page.wait_for_selector("main pre")
    yield "feed-address"
    page.goto(story.channel)
    if page.is_visible(".topbar button"):
        page.click(".topbar button")
        yield "menu"


def at_work(page: Page, story: Story) -> Iterator[str]:
    running(story)
    page.goto(story.at("/w/kazoe/jobs/"))
    yield "jobs-running"
    job = Job.objects.get(input_key="running")
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


def in_a_new_workspace(page: Page, story: Story) -> Iterator[str]:
    open_new(story)
    for path in EMPTY:
        page.goto(story.at(f"/w/new/{path}"))
        yield f"empty-{path.strip('/').replace('/', '-') or 'workspace'}"
    page.goto(story.at("/"))
    yield "workspaces"


STATES: dict[str, Callable[[Page, Story], Iterator[str]]] = {
    "editing": editing,
    "forms": sending_forms,
    "work": at_work,
    "new workspace": in_a_new_workspace,
}


def states(page: Page, story: Story) -> Iterator[str]:
    """Every state, in one walk."""
    for group in STATES.values():
        yield from group(page, story)


def open_new(story: Story) -> None:
    workspace = WorkspaceFactory(slug="new", name="New")
    MemberFactory(workspace=workspace, user=story.user, role="admin")


def running(story: Story) -> None:
    """One job that runs, one that waits for an hour."""
    now = timezone.now()
    short = Memory.objects.of_channel(story.launch, MemoryType.SHORT_TERM)
    for key, given in {
        "running": {"state": "claimed", "lease_until": now + timedelta(minutes=5)},
        "waiting": {"retry_at": now + timedelta(hours=1), "fault": "rate_limited"},
    }.items():
        Job.objects.create(memory=short, as_of_us=0, input_key=key, **given)


def backfilling(story: Story) -> Backfill:
    """The order of the story, given again."""
    done, now = story.workspace.backfills.get(), timezone.now()
    return Backfill.objects.start(
        story.workspace,
        list(done.channels.all()),
        since_us=0,
        until_us=to_micros(now),
        estimate=done.estimate,
        by=story.user,
    )
