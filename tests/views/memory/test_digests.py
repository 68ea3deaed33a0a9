"""Digests: e-mails once in a period, the feed, and the link that ends the e-mails."""

import re
from datetime import datetime, timedelta
from xml.etree import ElementTree

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from memories import digest_mail, tasks
from memories.models import (
    AccessGrant,
    AuditEvent,
    Digest,
    DigestDelivery,
    Line,
    Member,
    Memory,
    User,
    Workspace,
)
from memories.rules.memory.digests import RETRY_AFTER
from memories.rules.memory.identity import MemoryType
from memories.views.memory import briefing
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    WorkspaceFactory,
    make_version,
)
from tests.views.conftest import Cast

pytestmark = pytest.mark.postgres("conditional updates decide who sends an e-mail")

TUESDAY = MONDAY.replace(hour=8) + timedelta(days=1)  # an hour after a period ended
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(autouse=True)
def mail_server(settings: Settings) -> None:
    settings.EMAIL_HOST = "localhost"  # pytest-django keeps the messages in memory


def subscribe(cast: Cast, name: str, frequency: str = "daily") -> Digest:
    user = cast.users[name]
    user.email = f"{name}@example.com"
    user.save()
    digest = Digest.objects.create(user=user)
    digest_mail.choose_frequency(digest, frequency, MONDAY)
    return digest


def run(now=TUESDAY) -> int:
    digest_mail.fill_outbox(now)
    return digest_mail.send_due(now)


def test_each_period_has_one_email(cast: Cast) -> None:
    subscribe(cast, "member")
    assert run(MONDAY) == 0
    assert [run(), run(), run(TUESDAY + timedelta(hours=20))] == [1, 0, 0]
    [message] = mail.outbox
    assert message.to == ["member@example.com"]
    assert message.subject == "The team: catch up since Monday 5 Jan"
    html = message.alternatives[0][0]
    for body in (message.body, html):
        assert "We launch on Monday" in body and "#launch" in body
        assert "We launch on Friday" not in body
        assert "http://localhost:8000/w/team/catch-up/" in body
    assert run(TUESDAY + timedelta(days=1)) == 0  # nothing new
    assert DigestDelivery.objects.count() == 2


def test_the_period_is_the_same_in_each_workspace(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast.workspace.change_settings({"time_zone": "Asia/Tokyo"})
    american = WorkspaceFactory(settings={"time_zone": "America/New_York"})
    MemberFactory(workspace=american, user=cast.users["member"])
    starts = {}

    def build_digest(user: User, workspace: Workspace, since: datetime, now: datetime) -> None:
        starts[workspace] = since.isoformat()

    monkeypatch.setattr(digest_mail, "build_digest", build_digest)
    subscribe(cast, "member")
    run()
    assert starts == dict.fromkeys((cast.workspace, american), "2026-01-05T07:00:00+09:00")


def test_the_next_task_sends_the_others(
    cast: Cast, tasks_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_mail, "MAX_PER_RUN", 1)
    for name in ("member", "insider"):
        subscribe(cast, name)
    with time_machine.travel(TUESDAY):
        tasks.digests()
    assert len(mail.outbox) == 2


def test_the_text_is_that_of_catch_up(cast: Cast) -> None:
    subscribe(cast, "member")
    run()
    page = cast.clients["member"].get(cast.path("catch-up/?since=2026-01-05")).content.decode()
    counts = re.search(r'<span class="counts">([^<]+)', page)
    assert counts is not None and counts[1] in mail.outbox[0].body


def test_an_email_contains_only_visible_text(cast: Cast) -> None:
    for name in ("member", "insider", "guest", "outsider", "operator"):
        subscribe(cast, name)
    AccessGrant.objects.open(
        cast.private, by=cast.users["operator"], reason="a question", now=TUESDAY
    )
    Member.objects.create(workspace=cast.workspace, user=cast.users["operator"], role="admin")
    assert run() == 4
    bodies = {message.to[0].partition("@")[0]: message.body for message in mail.outbox}
    assert bodies.keys() == {"member", "insider", "guest", "operator"}
    assert [name for name, body in bodies.items() if "salaries" in body] == ["insider"]
    assert not any("earns a lot" in body for body in bodies.values())


@pytest.mark.parametrize("how", ["deactivated", "left", "unsubscribed", "no address"])
def test_the_audience_is_checked_when_it_is_sent(cast: Cast, how: str) -> None:
    digest = subscribe(cast, "member")
    digest_mail.fill_outbox(TUESDAY)
    user = cast.users["member"]
    if how == "deactivated":
        type(user).objects.update(is_active=False)
    elif how == "left":
        user.people.update(user=None)
    elif how == "unsubscribed":
        digest.choose("", None)
    else:
        type(user).objects.update(email="")
    assert digest_mail.send_due(TUESDAY) == 0
    assert not mail.outbox and not DigestDelivery.objects.due(TUESDAY + timedelta(days=9))


def test_another_address_ends_the_emails(cast: Cast) -> None:
    """Else an operator would get private text without an access grant."""
    insider, operator = cast.users["insider"], cast.users["operator"]
    operator.is_staff = True
    operator.save()
    subscribe(cast, "insider")
    digest_mail.fill_outbox(TUESDAY)
    path = reverse("admin:memories_user_change", args=[insider.pk])
    form = cast.clients["operator"].get(path).context["adminform"].form
    data = {name: form[name].value() for name in form.fields}
    data = {name: value for name, value in data.items() if value not in (None, False)}
    data |= {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    data["email"] = "operator@example.com"
    assert cast.clients["operator"].post(path, data).status_code == 302
    insider.refresh_from_db()
    assert insider.email == "operator@example.com"
    assert (digest_mail.send_due(TUESDAY), run(TUESDAY + timedelta(days=1)), mail.outbox) == (
        0,
        0,
        [],
    )
    page = cast.clients["insider"].get(reverse("preferences-edit")).content.decode()
    assert "E-mails go to operator@example.com." in page


def test_a_killed_worker_sends_later_and_once(cast: Cast) -> None:
    subscribe(cast, "member")
    digest_mail.fill_outbox(TUESDAY)
    first, second = (DigestDelivery.objects.due(TUESDAY).get() for _ in range(2))
    next_try_at = TUESDAY + RETRY_AFTER
    assert [row.claim(TUESDAY, next_try_at) for row in (first, second)] == [True, False]
    assert run() == 0  # the worker that claimed it was killed
    assert [run(TUESDAY + RETRY_AFTER), run()] == [1, 0]
    [message] = mail.outbox
    assert message.extra_headers["Message-ID"] == f"<digest-{first.pk}@localhost>"


def test_a_server_that_refuses_gets_three_tries(
    cast: Cast, settings: Settings, tmp_path: object
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_PORT = 9  # no server listens
    subscribe(cast, "member")
    assert [run(TUESDAY + timedelta(hours=hour)) for hour in range(5)] == [0] * 5
    assert DigestDelivery.objects.get().tries == 3


def test_without_a_server_the_periods_wait(cast: Cast, settings: Settings) -> None:
    subscribe(cast, "member")
    settings.EMAIL_HOST = ""
    assert run() == 0 and not DigestDelivery.objects.exists()
    settings.EMAIL_HOST = "localhost"
    assert run() == 1


def test_the_link_unsubscribes_with_one_click(cast: Cast) -> None:
    digest = subscribe(cast, "member", "weekly")
    run(TUESDAY + timedelta(days=7))
    headers = mail.outbox[0].extra_headers
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    address = headers["List-Unsubscribe"].strip("<>")
    assert address in mail.outbox[0].body
    client = Client(enforce_csrf_checks=True)
    path = address.removeprefix("http://localhost:8000")
    page = client.get(path)
    assert "Stop sending" in page.content.decode() and page["Cache-Control"] == "no-store, private"
    digest.refresh_from_db()
    assert digest.frequency == "weekly"  # a link preview only gets the page
    posted = client.post(path, {"List-Unsubscribe": "One-Click"})
    assert "no more e-mails" in posted.content.decode()
    digest.refresh_from_db()
    assert (digest.frequency, digest.next_at) == ("", None)
    assert client.post(path.replace(":", ":x")).status_code == 404


def test_settings_of_a_reader(cast: Cast) -> None:
    client = cast.clients["member"]
    assert "Your account has no e-mail address" in client.get("/settings/").content.decode()
    assert client.post("/settings/digest/", {"frequency": "daily"}).status_code == 302
    digest = Digest.objects.get(user=cast.users["member"])
    assert digest.next_at is not None and digest.next_at > timezone.now()
    assert 'value="daily" selected' in client.get("/settings/").content.decode()
    client.post("/settings/digest/", {"frequency": "hourly"})
    digest.refresh_from_db()
    assert digest.frequency == "daily"
    client.post("/settings/digest/", {"frequency": ""})
    digest.refresh_from_db()
    assert digest.frequency == ""


def feed_of(cast: Cast, name: str) -> str:
    page = cast.clients[name].post("/settings/feed/").content.decode()
    address = re.search(r"http://localhost:8000(/feeds/[\w-]+\.atom)", page)
    assert address is not None
    return address[1]


@pytest.mark.slow
def test_the_feed(cast: Cast, time_machine: object) -> None:
    time_machine.move_to(TUESDAY)  # type: ignore[attr-defined]
    path = feed_of(cast, "member")
    assert path not in cast.clients["member"].get("/settings/").content.decode()
    response = Client().get(path)
    assert response.status_code == 200 and response["Cache-Control"] == "no-store, private"
    assert response["Content-Type"].startswith("application/atom+xml")
    [entry] = ElementTree.fromstring(response.content).findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}title") == "The team: catch up since Monday 5 Jan"
    assert "We launch on Monday" in (entry.findtext(f"{ATOM}summary") or "")
    assert "salaries" not in response.content.decode()
    assert "salaries" in Client().get(feed_of(cast, "insider")).content.decode()


def test_a_feed_has_its_own_frequency(cast: Cast, time_machine: object) -> None:
    """The choice for e-mail decides only for an address without a frequency."""
    time_machine.move_to(TUESDAY)  # type: ignore[attr-defined]
    subscribe(cast, "member", "weekly")
    page = cast.clients["member"].post("/settings/feed/").content.decode()
    daily, weekly = re.findall(r"http://localhost:8000(/feeds/[\w-]+\.atom\?frequency=\w+)", page)
    assert "Every day" in page and "Every Monday" in page
    addresses = [daily, weekly, daily.partition("?")[0]]
    for path, day in zip(addresses, ("5 Jan", "29 Dec", "29 Dec"), strict=True):
        assert f"catch up since Monday {day}" in Client().get(path).content.decode()
    digest_mail.choose_frequency(Digest.objects.get(), "", TUESDAY)
    ids = [
        ElementTree.fromstring(Client().get(path).content).findtext(f"{ATOM}id")
        for path in (daily, weekly)
    ]
    assert len(set(ids)) == 2
    assert Client().get(daily.replace("daily", "hourly")).status_code == 404


def test_a_feed_ends(cast: Cast) -> None:
    client = cast.clients["member"]
    first, second = feed_of(cast, "member"), feed_of(cast, "member")
    assert [Client().get(path).status_code for path in (first, second)] == [404, 200]
    token = second.split("/")[-1].removesuffix(".atom")
    assert token not in str(Digest.objects.values())
    cast.users["member"].is_active = False
    cast.users["member"].save()
    assert Client().get(second).status_code == 404
    cast.users["member"].is_active = True
    cast.users["member"].save()
    client.force_login(cast.users["member"])
    client.post("/settings/feed/", {"do": "revoke"})
    assert Client().get(second).status_code == 404
    actions = AuditEvent.objects.filter(action__startswith="feed_").values_list("action", flat=True)
    assert sorted(actions) == ["feed_issue", "feed_issue", "feed_revoke"]


@pytest.mark.slow
def test_requests_for_feeds_are_limited() -> None:
    path = reverse("digests-feed", args=["unknown"])
    statuses = [Client().get(path).status_code for _ in range(61)]
    assert statuses == [404] * 60 + [429]


def test_messages_just_before_the_end_of_a_period_are_in_the_next_digest(cast: Cast) -> None:
    """Their conversation ends later, so the digest of their own period cannot have them."""
    subscribe(cast, "member")
    noon, said_at = MONDAY.replace(hour=12), TUESDAY.replace(hour=6)
    text, sources = "- We launch on Monday\n- Aya owns iOS\n- Ben books a venue", cast.messages[:1]
    with time_machine.travel(noon, tick=False):
        make_version(memory=cast.memory, text=text, sources=sources, until=noon)
    assert run() == 1
    late = MessageFactory(channel=cast.public, at=said_at, text="The venue is booked")
    text = text.replace("Ben books a venue", "The venue is booked")
    with time_machine.travel(TUESDAY.replace(hour=9), tick=False):
        make_version(memory=cast.memory, text=text, sources=[late], until=said_at)
    # The factory gives all lines the same source.
    Line.objects.exclude(text__contains="venue").update(at_us=cast.messages[0].micros)
    wednesday = TUESDAY + timedelta(days=1)
    assert run(wednesday) == 1
    assert "The venue is booked" in mail.outbox[1].body
    assert "We launch on Monday" not in mail.outbox[1].body
    assert run(wednesday + timedelta(days=1)) == 0  # and in no other one


def test_a_channel_of_the_last_digest_takes_no_place_of_one_with_news(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is the newest one, but has no message after the last digest."""
    monkeypatch.setattr(briefing, "DIGEST_CHANNELS", 1)
    subscribe(cast, "member")
    quiet = Memory.objects.of_channel(
        ChannelFactory(workspace=cast.workspace), MemoryType.LONG_TERM
    )
    for memory, text, said_at, remembered_at in (
        (cast.memory, "Aya owns iOS", MONDAY.replace(hour=11), MONDAY.replace(hour=12)),
        (quiet, "Ben sends the invoice", TUESDAY.replace(hour=6), TUESDAY.replace(hour=6)),
        (cast.memory, "The venue is booked", TUESDAY.replace(hour=5), TUESDAY),
    ):
        message = MessageFactory(channel=memory.channel, at=said_at)
        with time_machine.travel(remembered_at, tick=False):
            make_version(memory=memory, text=f"- {text}", sources=[message], until=said_at)
    assert run(TUESDAY + timedelta(days=1)) == 1
    assert "The venue is booked" in mail.outbox[0].body
    assert "invoice" not in mail.outbox[0].body
