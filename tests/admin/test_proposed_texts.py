"""Proposed texts of memories on the pages of jobs: editors change, approve and reject them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memories.admin.jobs import JobForm
from memories.models import Job, User
from memories.pipeline.memory import proposals
from memories.rules.memory.lines import hash_text
from tests.admin.conftest import change_page, content_of, opened, sent_data, staff
from tests.factories import (
    ChannelFactory,
    PersonFactory,
    make_proposed_merge,
)

pytestmark = pytest.mark.django_db

BEFORE = "- one\n- two\n- three"


@pytest.fixture
def job() -> Job:
    return make_proposed_merge()


@pytest.mark.parametrize(
    ("text", "button", "state", "content"),
    [
        ("- Ben ships the beta", "_save", "done", "- Ben ships the beta"),
        ("- Cleo ships\r\n- Ben tests", "_save", "done", "- Cleo ships\n- Ben tests"),
        ("", "_save", "done", "- Ben ships the beta"),
        ("- Cleo ships", "_reject", "rejected", BEFORE),
    ],
)
def test_the_form_decides_about_a_text(
    client: Client, operator: User, job: Job, text: str, button: str, state: str, content: str
) -> None:
    form = opened(client, job)
    assert form["text"] == "- Ben ships the beta"
    assert client.post(change_page(job), form | {"text": text, button: ""}).status_code == 302
    job.refresh_from_db()
    assert (job.state, content_of(job)) == (state, content)
    is_edited = "Cleo" in content
    assert job.memory.current and job.memory.current.author == (operator if is_edited else None)
    page = client.get(change_page(job)).content.decode()
    assert "<textarea" not in page and "ships" not in page


def test_the_page_queries_once_who_may_decide(
    client: Client, operator: User, job: Job, django_assert_max_num_queries: Any
) -> None:
    client.get(change_page(job))
    with django_assert_max_num_queries(40):
        client.get(change_page(job))


def approve_elsewhere(job: Job) -> None:
    assert proposals.approve(Job.objects.get(pk=job.pk), by=None)


def edit_elsewhere(job: Job) -> None:
    job.memory.revise("- By hand", by=None, based_on=1)


def pin_elsewhere(job: Job) -> None:
    job.memory.pin(1, by=None, based_on=1)


@pytest.mark.parametrize(
    ("change", "words", "content"),
    [
        (approve_elsewhere, "decided already: done.", "- Ben ships the beta"),
        (edit_elsewhere, "has changed", "- By hand"),
        (pin_elsewhere, "has changed", BEFORE),
    ],
)
def test_a_conflict_keeps_the_typed_text(
    client: Client,
    operator: User,
    job: Job,
    change: Callable[[Job], None],
    words: str,
    content: str,
) -> None:
    form = opened(client, job) | {"text": "- Cleo ships", "_save": ""}
    change(job)
    response = client.post(change_page(job), form)
    page = response.content.decode()
    assert response.status_code == 409 and words in page and "- Cleo ships</textarea>" in page
    assert content_of(job) == content


@pytest.mark.parametrize("text", ["- Ben ships the beta", "- Cleo ships"])
def test_a_second_click_does_not_drop_a_line_that_was_pinned(
    client: Client, operator: User, job: Job, text: str
) -> None:
    form = opened(client, job) | {"text": text, "_save": ""}
    client.post(change_page(job), form | {"revision": "7"})
    pin_elsewhere(job)
    bound = client.post(change_page(job), form | {"revision": "7"}).context["adminform"].form
    is_edited = "Cleo" in text
    status = client.post(change_page(job), sent_data(bound) | {"_save": ""}).status_code
    assert status == (409 if is_edited else 302)
    assert "- two" in content_of(job)


def test_a_long_text_is_approved_unless_it_is_edited(
    client: Client, operator: User, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobForm, "max_length", 5)
    form = opened(client, job)
    edited = client.post(change_page(job), form | {"text": "- Cleo ships", "_save": ""})
    errors = edited.context["adminform"].form.errors
    assert errors == {"text": ["The text has 12 characters. The limit is 5."]}
    assert client.post(change_page(job), form | {"_save": ""}).status_code == 302


@pytest.mark.parametrize(
    ("role", "codename", "is_allowed"),
    [
        ("editor", "change_job", True),
        ("editor", "view_job", False),
        ("member", "change_job", False),
        ("guest", "change_job", False),
        ("", "change_job", False),
    ],
)
def test_only_editors_see_and_change_the_text(
    client: Client, job: Job, role: str, codename: str, is_allowed: bool
) -> None:
    staff(client, "view_job", codename, workspace=job.memory.workspace, role=role)
    assert ("Ben ships" in client.get(change_page(job)).content.decode()) == is_allowed
    shown = hash_text("- Ben ships the beta")
    form = {"text": "- Cleo ships", "based_on": "1", "revision": "0", "shown": shown, "_save": ""}
    client.post(change_page(job), form)
    assert (content_of(job) == "- Cleo ships") == is_allowed


def test_an_operator_reads_no_text_of_a_private_channel(client: Client, operator: User) -> None:
    person = PersonFactory()
    private = ChannelFactory(workspace=person.workspace, kind="private", members=[person])
    job = make_proposed_merge(private)
    assert "Ben ships" not in client.get(change_page(job)).content.decode()
    shown = hash_text("- Ben ships the beta")
    form = {"text": "- Cleo ships", "based_on": "1", "revision": "0", "shown": shown}
    for button in ("_save", "_reject"):
        assert client.post(change_page(job), form | {button: ""}).status_code == 403
    assert (content_of(job), Job.objects.get().state) == (BEFORE, "proposed")
    person.link(operator, "slack")
    assert "Ben ships" in client.get(change_page(job)).content.decode()
