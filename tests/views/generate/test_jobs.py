"""The pages of jobs: health, lists, one job, changes and refreshing."""

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db.models.signals import post_init
from django.urls import reverse
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Channel,
    Endpoint,
    Heartbeat,
    Job,
    Memory,
    ModelCall,
    Workspace,
)
from memories.rules.memory.identity import MemoryType
from memories.views.access.access import NAV_RECENT
from memories.views.generate import jobs
from tests.factories import (
    ChannelFactory,
    all_is_well,
    make_call,
    make_job,
    make_segment,
    make_version,
)
from tests.views.conftest import Cast, assert_same_queries

pytestmark = pytest.mark.slow

State = Job.State
PART = {"HX-Request": "true"}


def job(channel: Channel, state: str = "waiting", **values: Any) -> Job:
    values.setdefault("memory", Memory.objects.of_channel(channel, MemoryType.SHORT_TERM))
    return make_job(state=state, **values)


def call(job: Job, **values: Any) -> ModelCall:
    now = timezone.now()
    fields = {
        "fence": job.model_calls.count() + 1,
        "began_at": now - timedelta(seconds=4),
        "ended_at": now,
        "tokens": 120,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "requests": 1,
    }
    return make_call(job=job, **fields | values)


def page(cast: Cast, suffix: str = "", name: str = "member", **headers: str) -> str:
    response = cast.clients[name].get(cast.path(f"jobs/{suffix}"), headers=headers)
    assert response.status_code == 200, response.status_code
    content: str = response.content.decode()
    return content


def states(*jobs: Job) -> list[str]:
    return [Job.objects.get(pk=job.pk).state for job in jobs]


def status_in(text: str, job: Job) -> str:
    row = text.split(f'id="row-{job.pk}"')[1].split("</li>")[0]
    match = re.search(r'class="status (\w+)"', row)
    assert match is not None
    return match[1]


@pytest.fixture
def well(cast: Cast) -> Cast:
    all_is_well()
    return cast


class TestHealth:
    def test_a_healthy_workspace(self, well: Cast) -> None:
        text = page(well)
        assert "Everything is working." in text and "Slack was read" in text and "2 min ago" in text
        assert ", next at" in text
        assert "No jobs yet." in text

    def test_each_problem_is_named(self, well: Cast) -> None:
        Heartbeat.objects.update(at=timezone.now() - timedelta(days=1))
        Workspace.objects.update(synced_at=timezone.now() - timedelta(minutes=11))
        job(well.public, "dead", fault="timeout", finished_at=timezone.now())
        text = page(well)
        assert "Something needs attention." in text and "1 job failed." in text
        assert "was last active" in text and "Slack was not read for a long time." in text
        for_guest = page(well, name="guest")  # without the state of the worker
        assert "was last active" not in for_guest and "1 job failed." in for_guest

    def test_a_first_sync_that_does_not_come_is_late(self, well: Cast) -> None:
        for minutes, is_late in ((1, False), (11, True)):
            at = timezone.now() - timedelta(minutes=minutes)
            Workspace.objects.update(connected_at=at, synced_at=None)
            text = page(well)
            assert ("Something needs attention." in text) is is_late
            assert "Slack was not read completely yet." in text

    def test_channels_that_are_not_read_are_in_the_failed_list(self, well: Cast) -> None:
        Channel.objects.filter(pk=well.public.pk).update(bot_is_in=False)
        text = page(well)
        assert "1 channel is not read." in text
        failed = text.split('id="failed-title"')[1].split("</section>")[0]
        assert (
            "#launch" in failed and "The bot is not in the channel" in failed and "Since" in failed
        )

    def test_problems_of_a_hidden_channel_are_not_shown(self, well: Cast) -> None:
        Channel.objects.filter(pk=well.private.pk).update(bot_is_in=False)
        job(well.private, "dead", fault="timeout")
        assert "Everything is working." in page(well)
        assert "Something needs attention." in page(well, name="insider")
        assert [self.nav_warns(well, name) for name in ("member", "insider")] == [False, True]

    def nav_warns(self, cast: Cast, name: str = "member") -> bool:
        text = cast.clients[name].get(cast.path("c/C0PUBLIC/")).content.decode()
        return 'aria-label="something needs attention"' in text.split("</nav>")[0]

    @pytest.mark.nightly("quicker tests run the same lines")
    def test_the_navigation_warns_of_problems(self, well: Cast) -> None:
        assert not self.nav_warns(well)
        made = job(well.public, "dead", fault="timeout")
        assert self.nav_warns(well) and self.nav_warns(well, "guest")
        made.delete()
        Heartbeat.objects.update(at=timezone.now() - timedelta(days=1))
        assert self.nav_warns(well) and not self.nav_warns(well, "guest")


class TestList:
    def test_each_state_has_a_status(self, well: Cast) -> None:
        now = timezone.now()
        later, past = now + timedelta(hours=1), now - timedelta(minutes=1)
        partly = job(well.public, "done")
        make_version(memory=well.memory, trigger={"left_out": 2}, job=partly)
        expected = {
            job(well.public): "queued",
            job(well.public, "claimed", lease_until=later): "running",
            job(well.public, "claimed", lease_until=past): "queued",
            job(well.public, "replied"): "running",
            job(well.public, retry_at=later, fault="timeout"): "waiting",
            job(well.public, "proposed"): "waiting",
            job(well.public, "done"): "done",
            partly: "done_with_errors",
            job(well.public, "dead", fault="timeout"): "failed",
            job(well.public, "cancelled"): "cancelled",
            job(well.public, "superseded"): "replaced",
        }
        text = page(well)
        assert {made: status_in(text, made) for made in expected} == expected
        assert "until" in text and "Its worker stopped" in text
        assert "It is retried: the model did not reply in time" in text

    def test_failed_jobs_come_first_with_cause_time_and_remedy(self, well: Cast) -> None:
        done = job(well.public, "done")
        dead = job(well.public, "dead", fault="bad_request", finished_at=timezone.now())
        text = page(well)
        assert text.index(f'id="row-{dead.pk}"') < text.index(f'id="row-{done.pk}"')
        row = text.split(f'id="row-{dead.pk}"')[1].split("</li>")[0]
        assert "The model rejected the request" in row and "since" in row
        assert "Correct the model" in row
        assert "<button" not in row  # a member only reads

    def test_a_running_job_does_not_show_its_last_fault(self, well: Cast) -> None:
        later = timezone.now() + timedelta(hours=1)
        again = job(well.public, "claimed", lease_until=later, fault="timeout", attempts=2)
        text = page(well)
        assert status_in(text, again) == "running"
        assert "did not reply in time" not in text and "attempt 2 of 5" in text
        assert "Everything is working." in text

    def test_a_job_that_waits_for_the_endpoint_shows_until_when(self, well: Cast) -> None:
        until = timezone.now() + timedelta(minutes=5)
        Endpoint.objects.create(fingerprint="f", name="tiny", retry_at=until)
        waits = job(well.public)
        text = page(well)
        assert (
            status_in(text, waits) == "waiting" and "calls to the model are paused" in text.lower()
        )

    def test_each_job_shows_its_cost(self, well: Cast) -> None:
        priced, unpriced = job(well.public, "done"), job(well.public, "done")
        call(priced, micros=2_500_000)
        call(unpriced)
        text = page(well)
        assert "$2.50" in text and "120 tokens without a price" in text and "$0" not in text

    def test_a_row_shows_the_time_of_the_next_try_in_its_facts(self, well: Cast) -> None:
        later = timezone.now() + timedelta(hours=1)
        job(well.public, "waiting", retry_at=later, fault="rate_limited")
        row = page(well).split('<li class="run"')[1]
        assert "until" not in row.split('<p class="facts">')[0]
        assert "until" in row.split('<p class="facts">')[1].split("</p>")[0]

    def test_older_jobs_have_their_own_address(self, well: Cast) -> None:
        made = [job(well.public, "done") for _ in range(30)]
        text = page(well)
        assert f'href="?before={made[18].pk}"' in text and f'id="row-{made[17].pk}"' not in text
        assert f'id="row-{made[17].pk}"' in page(well, f"?before={made[18].pk}")
        assert page(well, "?before=x") and page(well, f"?before={'9' * 30}")


class TestAudience:
    def test_jobs_of_a_private_channel_and_their_counts_are_hidden(self, well: Cast) -> None:
        secret = job(well.private, "dead", fault="timeout", fault_text="tom earns a lot")
        call(secret, micros=1_000_000)
        for name in ("member", "editor", "guest"):
            text = page(well, name=name)
            assert f"row-{secret.pk}" not in text and "salaries" not in text
            assert "failed" not in text.lower().split("<main")[1]
            path = reverse("jobs-detail", args=["team", secret.pk])
            assert well.clients[name].get(path).status_code == 404
        text = page(well, name="insider")
        assert f"row-{secret.pk}" in text and "salaries" in text
        assert "tom earns a lot" in page(well, f"{secret.pk}/", name="insider")

    def test_an_operator_sees_that_a_private_job_exists(self, well: Cast) -> None:
        secret = job(well.private, "dead", fault="timeout", fault_text="tom earns a lot")
        for suffix in ("", f"{secret.pk}/"):
            text = page(well, suffix, name="operator").split("<main")[1]
            assert "private" in text
            assert "salaries" not in text and "earns" not in text and "C0PRIVATE" not in text

    def test_jobs_of_another_workspace_are_not_shown(self, well: Cast) -> None:
        foreign = job(ChannelFactory(), "dead")
        for name in ("insider", "operator"):
            path = reverse("jobs-detail", args=["team", foreign.pk])
            assert well.clients[name].get(path).status_code == 404
            assert f"row-{foreign.pk}" not in page(well, name=name)


class TestActing:
    def test_an_admin_retries_and_cancels(self, well: Cast) -> None:
        dead, waits = job(well.public, "dead"), job(well.public)
        client = well.clients["insider"]
        assert client.post(well.path("jobs/"), {"retry": dead.pk}).status_code == 302
        assert client.post(well.path("jobs/"), {"cancel": waits.pk}).status_code == 302
        assert states(dead, waits) == ["waiting", "cancelled"]
        text = page(well, name="insider")
        assert "1 job will be retried." in text and "1 job was cancelled." in text
        here = well.path(f"jobs/{waits.pk}/")
        assert client.post(here, {"do": "retry"})["Location"] == here
        assert client.post(well.path(f"jobs/{dead.pk}/"), {"do": "cancel"}).status_code == 302
        assert states(dead, waits) == ["cancelled", "waiting"]
        events = AuditEvent.objects.filter(actor="insider", action__startswith="job_")
        assert sorted(events.values_list("action", flat=True)) == [
            "job_cancel",
            "job_cancel",
            "job_retry",
            "job_retry",
        ]

    def test_retry_all_covers_the_visible_failed_jobs(self, well: Cast) -> None:
        seen, foreign = job(well.public, "dead"), job(ChannelFactory(), "dead")
        assert "Retry the failed job" in page(well, name="insider")
        response = well.clients["insider"].post(well.path("jobs/"), {"do": "retry_failed"})
        assert response.status_code == 302
        assert states(seen, foreign) == ["waiting", "dead"]

    def test_a_changed_row_gets_the_focus(self, well: Cast) -> None:
        dead = job(well.public, "dead")
        client = well.clients["insider"]
        answer = client.post(well.path("jobs/"), {"retry": dead.pk}, headers=PART)
        text = answer.content.decode()
        assert "<html" not in text and 'hx-swap-oob="innerHTML"' in text
        assert re.search(rf'id="run-{dead.pk}"[^>]* autofocus', text)

    @pytest.mark.parametrize("name", ["member", "editor", "guest"])
    def test_other_readers_cannot_retry(self, well: Cast, name: str) -> None:
        dead = job(well.public, "dead")
        for path, data in (
            ("jobs/", {"retry": dead.pk}),
            ("jobs/", {"do": "retry_failed"}),
            (f"jobs/{dead.pk}/", {"do": "retry"}),
        ):
            assert well.clients[name].post(well.path(path), data).status_code == 403
        assert states(dead) == ["dead"]
        assert 'name="retry"' not in page(well, name=name)

    def test_impossible_changes_are_refused(self, well: Cast) -> None:
        done, client = job(well.public, "done"), well.clients["insider"]
        assert client.post(well.path("jobs/"), {"retry": done.pk}).status_code == 302
        assert "Its state changed in the meantime" in page(well, name="insider")
        for data in ({}, {"retry": "x"}, {"retry": "987654"}, {"do": "explode"}):
            assert client.post(well.path("jobs/"), data).status_code == 404
        assert client.post(well.path(f"jobs/{done.pk}/"), {"do": "explode"}).status_code == 404


class TestOneJob:
    def test_a_job_shows_its_calls_inputs_and_versions(self, well: Cast) -> None:
        segment = make_segment(messages=well.messages[4:])
        made = job(
            well.public,
            "done",
            segment=segment,
            trigger={"reason": "idle", "new": 2, "quiet_s": 7200},
            finished_at=timezone.now(),
            attempts=2,
        )
        call(made, fault="timeout", prompt_tokens=0, completion_tokens=0, tokens=0)
        call(made, micros=12_345)
        version = make_version(memory=made.memory, job=made)
        made.add_inputs([well.memory.current])
        text = page(well, f"{made.pk}/")
        assert "Call 1, tiny: the model did not reply in time" in text
        assert "Call 2, tiny: answered" in text and "$0.0123" in text
        assert f'href="/v/{version.pk}/"' in text and f'href="/v/{well.memory.current.pk}/"' in text
        assert "2 messages, then 2 h without a message" in text and "messages/?around=" in text
        assert "hx-trigger" not in text.split("<main")[1]  # it is over

    def test_hidden_inputs_are_not_shown(self, well: Cast) -> None:
        made = job(well.public, "done")
        made.add_inputs([well.private_memory.current])
        response = well.clients["member"].get(well.path(f"jobs/{made.pk}/"))
        assert f"/v/{well.private_memory.current.pk}/" not in response.content.decode()

    def test_a_lost_call_shows_its_reservation(self, well: Cast) -> None:
        made = job(well.public, "claimed", lease_until=timezone.now() + timedelta(minutes=1))
        call(made, ended_at=None, prompt_tokens=0, completion_tokens=0)
        text = page(well, f"{made.pk}/")
        assert "no reply yet; it may use at most" in text and "unpriced" in text


class TestPolling:
    def seen(self, text: str) -> str:
        match = re.search(r'hx-get="([^"]*seen=[^"]*)"', text)
        assert match is not None
        return match[1].replace("&amp;", "&")

    def test_the_page_refreshes_faster_while_jobs_are_active(self, well: Cast) -> None:
        assert 'hx-trigger="every 60s"' in page(well)
        assert '<noscript><meta http-equiv="refresh" content="30"></noscript>' in page(well)
        job(well.public)
        assert 'hx-trigger="every 3s"' in page(well)

    def test_an_unchanged_page_is_answered_with_204(self, well: Cast) -> None:
        made = job(well.public, "claimed", lease_until=timezone.now() + timedelta(minutes=5))
        client = well.clients["member"]
        for suffix in ("jobs/", f"jobs/{made.pk}/"):
            with time_machine.travel(timezone.now(), tick=False):  # relative times stay
                again = self.seen(client.get(well.path(suffix)).content.decode())
                assert client.get(again, headers=PART).status_code == 204
            Job.objects.filter(pk=made.pk).update(attempts=2)
            changed = client.get(again, headers=PART)
            assert changed.status_code == 200 and "<html" not in changed.content.decode()
            assert client.get(again).status_code == 200  # a page is a page
            Job.objects.filter(pk=made.pk).update(attempts=1)

    def test_refreshing_ends_with_the_job(self, well: Cast) -> None:
        made = job(well.public, "done")
        answer = well.clients["member"].get(well.path(f"jobs/{made.pk}/"), headers=PART)
        assert answer.status_code == 286 and b"hx-trigger" not in answer.content
        assert "meta http-equiv" not in page(well, f"{made.pk}/")

    def test_each_control_of_a_part_has_an_id(self, well: Cast) -> None:
        for state in ("dead", "waiting", "done", "proposed"):
            made = job(well.public, state, fault="quarantined")
        for text in (page(well, name="insider"), page(well, f"{made.pk}/", name="insider")):
            part = re.split(r'<div id="(?:jobs|run)"', text)[1].split("</main>")[0]
            controls = re.findall(r"<(?:a|button|input) [^>]*>", part)
            assert controls and all(" id=" in control for control in controls)


@pytest.mark.nightly("growth: fills tables, and counts again")
@pytest.mark.parametrize("suffix", ["jobs/", "jobs/cost/"])
def test_more_jobs_need_no_more_queries(well: Cast, suffix: str) -> None:
    def make(count: int) -> None:
        for n in range(count):
            state = ("dead", "waiting", "done", "claimed")[n % 4]
            made = job(ChannelFactory(workspace=well.workspace), state, model="tiny")
            call(made)

    path = well.path(suffix)
    assert_same_queries(make, lambda: well.clients["insider"].get(path), sizes=(10, 60))


def test_it_loads_the_channels_that_it_shows(well: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "CHANNELS_SHOWN", 3)
    ChannelFactory.create_batch(60, workspace=well.workspace, is_followed=True)
    loaded: list[int] = []

    def note(instance: Channel, **kwargs: Any) -> None:
        loaded.append(instance.pk)

    post_init.connect(note, sender=Channel)
    try:
        page(well)
    finally:
        post_init.disconnect(note, sender=Channel)
    assert len(loaded) <= jobs.CHANNELS_SHOWN + jobs.FAILED_SHOWN + NAV_RECENT


def test_one_element_has_the_focus_after_retry_all(cast: Cast) -> None:
    for _ in range(3):
        job(cast.public, "dead", fault="timeout")
    assert "Retry all 3 failed jobs" in page(cast, name="insider")
    path = cast.path("jobs/")
    part = cast.clients["insider"].post(path, {"do": "retry_failed"}, headers=PART)
    text = part.content.decode()
    assert text.count("autofocus") == 1
    assert '<h2 id="open-title" tabindex="-1" autofocus>' in text
    nothing = cast.clients["insider"].post(path, {"do": "retry_failed"}, headers=PART)
    assert nothing.content.decode().count("autofocus") == 1


def test_a_reader_stops_the_refreshing(cast: Cast) -> None:
    failed = job(cast.public, "dead", fault="timeout")
    for suffix in ("", f"{job(cast.public).pk}/"):
        assert "hx-trigger" in page(cast, suffix) and 'href="?live=off"' in page(cast, suffix)
        still = page(cast, f"{suffix}?live=off")
        assert "hx-trigger" not in still and "http-equiv" not in still
        assert "Resume auto-refresh" in still
    still = page(cast, "?live=off", name="insider")
    assert f'hx-post="{cast.path("jobs/")}?live=off"' in still
    answer = cast.clients["insider"].post(cast.path("jobs/?live=off"), {"retry": failed.pk})
    assert answer["Location"] == cast.path("jobs/?live=off")


def test_links_and_forms_keep_the_page_and_the_choice_to_refresh(cast: Cast) -> None:
    made = [job(cast.public, "done") for _ in range(60)]
    still = page(cast, "?live=off")
    older = f"?before={made[48].pk}&amp;live=off"
    assert f'id="older" href="{older}"' in still
    job(cast.public, "dead", fault="timeout")
    there = page(cast, older.replace("&amp;", "&"), name="insider")
    assert f'hx-post="{cast.path("jobs/")}{older}"' in there and "hx-trigger" not in there
    assert f'id="live" href="?before={made[48].pk}"' in there
    moving = page(cast, f"?before={made[48].pk}", name="insider")
    assert f'id="live" href="{older}"' in moving and "hx-trigger" in moving
    assert f'hx-post="{cast.path("jobs/")}?before={made[48].pk}"' in moving
