"""The pages of backfills: estimate, start, progress and changes."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from memories.models import AuditEvent, Backfill, Channel, Endpoint, Memory, Segment
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import MONDAY, MessageFactory, make_job
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow


@pytest.fixture
def older(cast: Cast) -> Cast:
    """Six messages of an earlier day, before the start mark of the public channel."""
    cast.public.messages.filter(segment=None).update(segment=Segment.objects.get())
    for minute in range(6):
        at = MONDAY - timedelta(days=3) + timedelta(minutes=minute)
        MessageFactory(channel=cast.public, author=cast.author, at=at)
    Channel.objects.update(segments_from_us=to_micros(MONDAY), start_us=to_micros(MONDAY))
    return cast


def page(cast: Cast, suffix: str = "", name: str = "insider", **headers: str) -> str:
    response = cast.clients[name].get(cast.path(f"backfill/{suffix}"), headers=headers)
    assert response.status_code == 200, response.status_code
    content: str = response.content.decode()
    return content


def order(cast: Cast, name: str = "insider", **data: object) -> Backfill:
    response = cast.clients[name].post(cast.path("backfill/"), data)
    assert response.status_code == 302
    backfill = Backfill.objects.latest("pk")
    assert response["Location"] == here(cast, backfill)
    return backfill


def here(cast: Cast, backfill: Backfill) -> str:
    return reverse("backfill-detail", args=[cast.workspace.slug, backfill.pk])


def change(cast: Cast, backfill: Backfill, name: str = "insider", **data: str) -> int:
    return cast.clients[name].post(here(cast, backfill), data).status_code


def test_a_estimate_has_an_address_and_starts_nothing(older: Cast) -> None:
    text = page(older, "?estimate=1&channel=C0PUBLIC&since=2026-01-01&cap=5000")
    assert "Estimated cost" in text and "costs nothing" in text
    assert re.search(r'<th scope="row">#launch</th><td>6</td><td>1</td>', text)
    assert 'name="cap" value="5000"' in text and 'value="C0PUBLIC" checked' in text
    assert (
        "salaries" not in text.split("What to")[0].split("Estimated cost")[1].split("</table>")[0]
    )
    assert not Backfill.objects.exists()


def test_without_a_choice_all_readable_channels_are_quoted(older: Cast) -> None:
    everything = page(older, "?estimate=1")
    assert "#launch" in everything and "#salaries" in everything
    public = page(older, "?estimate=1", name="operator")
    assert "#launch" in public and "#salaries" not in public


def test_an_empty_estimate_is_explained(older: Cast) -> None:
    text = page(older, "?estimate=1&channel=C0PUBLIC&since=2026-01-05")
    assert "Nothing left to summarize." in text
    assert "<td>" not in text
    assert 'class="button"' in text.split("Nothing left")[1].split("</section>")[0]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("since=soon", "Enter a date or"),
        ("cap=lots", "Enter a number of tokens or"),
        ("channel=CNOWHERE", "CNOWHERE"),
    ],
)
def test_invalid_values_are_shown_with_their_errors(older: Cast, query: str, what: str) -> None:
    response = older.clients["insider"].get(older.path(f"backfill/?estimate=1&{query}"))
    assert response.status_code == 422
    assert what in response.content.decode()


def test_post_starts_a_backfill(older: Cast) -> None:
    backfill = order(older, since="2026-01-01", cap="5000", channel=["C0PUBLIC"])
    assert (backfill.state, backfill.cap_tokens) == ("running", 5000)
    assert list(backfill.channels.all()) == [older.public]
    assert backfill.author == older.users["insider"]
    assert backfill.estimate["total"]["messages"] == 6
    text = page(older, f"{backfill.pk}/")
    assert "Backfill started." in text and "0 of 1 summaries" in text
    assert 'hx-trigger="every 3s"' in text and '<noscript><meta http-equiv="refresh"' in text
    index = older.clients["insider"].get(older.path("backfill/"))
    assert index["Location"] == here(older, backfill)


def test_the_start_is_a_day_of_the_reader(older: Cast) -> None:
    older.users["insider"].save_preferences(time_zone="Asia/Tokyo")
    backfill = order(older, since="2026-01-02")
    assert backfill.since_us == to_micros(datetime(2026, 1, 1, 15, tzinfo=UTC))
    assert 'datetime="2026-01-02T00:00:00+09:00"' in page(older, f"{backfill.pk}/")


def test_a_cap_in_dollars_needs_a_price(older: Cast, settings) -> None:  # type: ignore[no-untyped-def]
    settings.MEMORYHUB_MODEL = "tiny"
    response = older.clients["insider"].post(older.path("backfill/"), {"cap": "$2.50"})
    assert response.status_code == 422
    assert "The model has no price" in response.content.decode()
    assert "unpriced" in page(older, "?estimate=1")
    assert not Backfill.objects.exists()


def test_a_second_backfill_is_refused(older: Cast) -> None:
    order(older)
    response = older.clients["insider"].post(older.path("backfill/"), {})
    assert response.status_code == 422
    assert "Another backfill" in response.content.decode()


def test_a_backfill_with_a_hidden_channel_is_hidden(older: Cast) -> None:
    backfill = order(older, channel=["C0PRIVATE"])
    operator = older.clients["operator"]
    assert operator.get(here(older, backfill)).status_code == 404
    assert operator.post(here(older, backfill), {"do": "cancel"}).status_code == 404
    text = page(older, name="operator")
    assert "is running or paused" in text and "salaries" not in text
    assert '<button class="button primary">' not in page(older, "?estimate=1", name="operator")


def test_an_admin_pauses_resumes_and_cancels(older: Cast) -> None:
    backfill = order(older)
    assert change(older, backfill, do="pause") == 302
    assert "Resume" in page(older, f"{backfill.pk}/")
    assert change(older, backfill, do="resume", cap="9000") == 302
    backfill.refresh_from_db()
    assert (backfill.state, backfill.cap_tokens) == ("running", 9000)
    text = page(older, f"{backfill.pk}/?ask=cancel")
    assert "Cancel the backfill?" in text and backfill.is_unfinished
    assert change(older, backfill, do="cancel") == 302
    backfill.refresh_from_db()
    assert backfill.state == "cancelled"
    assert "Run another" in page(older, f"{backfill.pk}/")
    assert "Earlier backfills" in page(older)
    actions = set(AuditEvent.objects.filter(actor="insider").values_list("action", flat=True))
    assert {f"backfill_{verb}" for verb in ("start", "pause", "resume", "cancel")} <= actions


def test_an_invalid_cap_does_not_resume(older: Cast) -> None:
    backfill = order(older, cap="5000")
    change(older, backfill, do="pause")
    assert change(older, backfill, do="resume", cap="lots") == 422
    backfill.refresh_from_db()
    assert (backfill.state, backfill.cap_tokens) == ("paused", 5000)


def test_only_admins_start_and_stop(older: Cast) -> None:
    backfill = order(older)
    for name, status in (("editor", 403), ("member", 403), ("guest", 403), ("outsider", 404)):
        assert change(older, backfill, name, do="cancel") == status
        posted = older.clients[name].post(older.path("backfill/"), {})
        assert posted.status_code == status
    backfill.refresh_from_db()
    assert backfill.state == "running"


def test_the_part_refreshes_until_the_backfill_is_finished(older: Cast) -> None:
    backfill = order(older)
    client = older.clients["insider"]
    path = f"{here(older, backfill)}?state=running"
    part = client.get(path, headers={"HX-Request": "true"})
    assert part.status_code == 200
    text = part.content.decode()
    assert text.lstrip().startswith('<section id="progress"') and "hx-get=" in text
    assert 'id="actions"' not in text, "they change with the state only"
    backfill.pause(reason="over_cap")
    text = client.get(path, headers={"HX-Request": "true"}).content.decode()
    assert "limit reached" in text and 'hx-swap-oob="true"' in text and "Resume" in text
    backfill.cancel(None)
    last = client.get(path, headers={"HX-Request": "true"})
    assert last.status_code == 286
    assert "hx-get=" not in last.content.decode()


def test_a_finished_backfill_leads_to_catch_up(older: Cast) -> None:
    backfill = order(older)
    assert ">Catch up</a>" not in page(older, f"{backfill.pk}/").partition("<main")[2]
    Backfill.objects.update(state="done")
    text = page(older, f"{backfill.pk}/")
    assert ">Catch up</a>" in text.partition("<main")[2]
    assert "just now" not in text.partition("<main")[2], "the time stays true on an open page"


def test_the_part_shows_why_no_jobs_run(older: Cast) -> None:
    backfill = order(older)
    Endpoint.objects.create(fingerprint="f", name="tiny", needs_person=True, fault="out_of_credit")
    client = older.clients["insider"]
    text = client.get(here(older, backfill), headers={"HX-Request": "true"}).content.decode()
    assert "Stalled: the model account has no credit left." in text
    assert "remaining: about" not in text


def test_a_channel_counts_its_cancelled_messages(older: Cast) -> None:
    Segment.objects.filter(channel=older.public).update(outcome="cancelled")
    text = older.clients["member"].get(older.path("c/C0PUBLIC/")).content.decode()
    assert "<dt>left out by a person</dt><dd>4</dd>" in text


def test_only_admins_see_the_link(older: Cast) -> None:
    link = f'href="{older.path("backfill/")}"'
    assert link in older.clients["insider"].get(older.path()).content.decode()
    assert link not in older.clients["editor"].get(older.path()).content.decode()


def test_an_admin_retries_dead_jobs(older: Cast) -> None:
    backfill = order(older)
    memory = Memory.objects.of_channel(older.public, MemoryType.SHORT_TERM)
    given = {"segment": Segment.objects.first(), "backfill": backfill}
    failed = make_job(memory=memory, state="dead", fault="timeout", **given)
    assert "Retry the failed one" in page(older, f"{backfill.pk}/")
    assert change(older, backfill, "editor", do="retry") == 403
    assert change(older, backfill, do="retry") == 302
    failed.refresh_from_db()
    assert failed.state == "waiting"
    assert "was failed" not in page(older, f"{backfill.pk}/?live=off")


def test_a_reader_stops_the_refreshing(older: Cast) -> None:
    backfill = order(older)
    assert 'hx-trigger="every 3s"' in page(older, f"{backfill.pk}/")
    still = page(older, f"{backfill.pk}/?live=off")
    assert "hx-trigger" not in still and "http-equiv" not in still
