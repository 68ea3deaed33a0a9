"""The admin shows no private channel to people who are not in it, operators included.

Every text of a private channel carries a word; a crawl over all pages of the admin looks for it.
"""

import json
import re
from decimal import Decimal
from html import unescape
from urllib.parse import urljoin

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Backfill,
    Budget,
    Channel,
    ChannelMember,
    Endpoint,
    Heartbeat,
    Job,
    Memory,
    MemoryVersion,
    Message,
    ModelCall,
    Note,
    Price,
    Proposal,
    QuarantinedLine,
    Reader,
    Segment,
    SlackConnection,
    SlackEvent,
    Workspace,
)
from memories.rules.memory.identity import MemoryType
from tests.admin.conftest import page_of
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_call,
    make_job,
    make_reply,
    make_segment,
    make_version,
    make_workspace_memory,
)
from tests.leaks.probes import ADMIN

pytestmark = pytest.mark.django_db

# Searches use its beginning, because a page repeats the query.
CANARY, TYPED = "canaryyellow", "canary"
# The private channel's Slack id, and so its memories' scope id.
PRIVATE_ID, TYPED_ID = "GYELLOW1", "GYELL"
REPLY = "replyofmodel"  # the reply of a model, which is not shown


def fill(channel, word):
    """Create rows of every kind in a channel, with the word in each text."""
    root = MessageFactory(channel=channel, text=f"{word} text", username=f"{word} name", raw=word)
    reply = make_reply(root=root, text=f"{word} reply")
    segment = make_segment(messages=[root])
    thread_segment = make_segment(messages=[reply], thread_ts=root.ts)
    for memory_type in MemoryType:
        memory = Memory.objects.of_channel(channel, memory_type)
        first = make_version(
            memory=memory, text=f"- {word} old", sources=[root], segment=segment, put_back=[word]
        )
        memory.revise(f"- {word} new", by=None, based_on=1)
        job = make_job(
            memory=memory,
            inputs=[first],
            segment=segment,
            base=first,
            state="dead",
            fault="timeout",
            fault_text=f"{word} fault",
            reply={"text": f"{word} {REPLY}"},
        )
        make_call(job=job)
    memory.refresh_from_db()
    Proposal.objects.propose(memory.current, memory.current.lines.get(), f"{word} proposal")
    line = QuarantinedLine.objects.create(memory=memory, text=f"{word} stopped", rule="link")
    line.sources.add(root)
    make_version(
        memory=Memory.objects.of_thread(channel, root.ts),
        text=f"- {word} thread",
        segment=thread_segment,
    )
    NoteFactory(
        workspace=channel.workspace,
        channel=channel,
        content=f"{word} note",
        tags=[f"{word}-tag"],
    )


@pytest.fixture(scope="module")
def shared_team(module_transaction):
    workspace = WorkspaceFactory()
    public = ChannelFactory(workspace=workspace, name="general", topic="open topic")
    private = ChannelFactory(
        workspace=workspace,
        slack_id=PRIVATE_ID,
        name=f"{CANARY}-channel",
        kind="private",
        topic=f"{CANARY} topic",
        purpose=f"{CANARY} purpose",
        members=[PersonFactory(workspace=workspace), PersonFactory(workspace=workspace)],
    )
    fill(public, "open")
    fill(private, CANARY)
    make_workspace_memory(workspace=workspace)
    MemberFactory(workspace=workspace)
    Heartbeat.objects.beat("worker", timezone.now())
    Endpoint.objects.create(fingerprint="f", name="tiny at example.com", needs_person=True)
    Price.objects.change("tiny", Decimal(1), Decimal(2), by=None)
    SlackEvent.objects.create(event_id="Ev1", team_id="T1", kind="message", state="failed")
    SlackConnection.objects.of(workspace).set_token("xoxb-1-one", by=None)
    Budget.objects.change(workspace, "day", tokens=1000, by=None)
    for state, channels in (("done", [public]), ("paused", [public, private])):
        backfill = Backfill.objects.create(
            workspace=workspace, since_us=0, until_us=1, state=state, estimate={"of": CANARY}
        )
        backfill.channels.set(channels)
    Backfill.objects.filter(state="done").update(estimate={})
    return workspace


@pytest.fixture
def team(shared_team, db):
    """The workspace, which is made once for all tests here."""
    return Workspace.objects.get(pk=shared_team.pk)


def insider(workspace, **account):
    """Create a user who is in the private channel."""
    user = UserFactory(is_staff=True, **account)
    person = PersonFactory(workspace=workspace, user=user)
    ChannelMemberFactory(channel=workspace.channels.get(slack_id=PRIVATE_ID), person=person)
    return user


def operator(workspace):
    return UserFactory(is_staff=True, is_superuser=True)


def staff_with_all_rights(workspace):
    user = staff_from_elsewhere(workspace)
    MemberFactory(workspace=workspace, user=user, role="admin")
    return user


def staff_from_elsewhere(workspace):
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


def lists():
    """Return the URLs of lists and searches."""
    for model in admin.site._registry:
        listed = page_of(model, "changelist")
        yield from (listed, f"{listed}?q={TYPED}")


def change_pages():
    """Return the URLs of all private rows and one public row."""
    for model in admin.site._registry:
        yield from (page_of(model, "change", pk) for pk in keys_of(model))


def further_pages():
    """Return the URLs of forms and histories of the same rows, and of choices."""
    yield reverse("admin:index")
    for model in admin.site._registry:
        listed = page_of(model, "changelist")
        yield from (f"{listed}?q={TYPED_ID}", f"{listed}?e=1", page_of(model, "add"))
        for pk in keys_of(model):
            yield from (page_of(model, page, pk) for page in ("history", "delete"))
    yield from choices()


def choices():
    """Return the URLs of the choices of related rows."""
    for model in admin.site._registry:
        for field in model._meta.get_fields():
            if field.is_relation and field.concrete and field.related_model in admin.site._registry:
                yield (
                    f"{reverse('admin:autocomplete')}?app_label={model._meta.app_label}"
                    f"&model_name={model._meta.model_name}&field_name={field.name}&term={TYPED}"
                )


def keys_of(model):
    """Return private rows and a public one, or all rows of a model without readers."""
    keys = model._base_manager.order_by("pk").values_list("pk", flat=True)
    if not hasattr(model._default_manager, "visible_to"):
        return list(keys)
    public = set(model._default_manager.visible_to(Reader.public()).values_list("pk", flat=True))
    return [key for key in keys if key not in public] + sorted(public)[:1]


def hidden_filters():
    """Return lists that are filtered by the keys of the private channel."""
    private = Channel.objects.get(slack_id=PRIVATE_ID)
    memory = private.memories.first()
    for name, query in (
        ("proposal", f"memory__channel__id__exact={private.pk}"),
        ("quarantinedline", f"memory__channel__id__exact={private.pk}"),
        ("message", f"channel__id__exact={private.pk}"),
        ("segment", f"channel__id__exact={private.pk}"),
        ("note", f"channel__id__exact={private.pk}"),
        ("memory", f"channel__id__exact={private.pk}"),
        ("memoryversion", f"memory__id__exact={memory.pk}"),
        ("memoryversion", f"memory__channel__id__exact={private.pk}"),
        ("job", f"memory__id__exact={memory.pk}"),
        ("channelmember", f"channel__id__exact={private.pk}"),
    ):
        yield f"{reverse(f'admin:memories_{name}_changelist')}?{query}"


def pages(client, *addresses):
    """``(address, page)`` of these addresses."""
    for address in addresses:
        response = client.get(address, follow=True)
        assert response.status_code in (200, 403, 404), address
        yield address, response.content.decode()


def filtered(client, listed):
    """Return the URLs of each filter of a list."""
    page = client.get(listed).content.decode()
    for link in sorted({unescape(link) for link in re.findall(r'href="(\?[^"]+)"', page)}):
        if not link.startswith(("?o=", "?_facets")):
            response = client.get(listed + link)
            assert response.status_code == 200, listed + link
            yield listed + link, response.content.decode()


def deletions(client):
    """The confirmation of "delete selected" for every row of every list."""
    for model in admin.site._registry:
        listed = page_of(model, "changelist")
        keys = list(model._base_manager.values_list("pk", flat=True))
        data = {"action": "delete_selected", "_selected_action": keys}
        yield f"{listed} {data}", client.post(listed, data, follow=True).content.decode()


def all_pages(client):
    yield from pages(client, *lists(), *change_pages(), *further_pages(), *hidden_filters())


def all_rows(client):
    yield from pages(client, *lists(), *change_pages(), *hidden_filters())


def all_actions_and_filters(client):
    """The confirmations of deletions, and the lists as their own filters narrow them."""
    yield from deletions(client)
    for model in admin.site._registry:
        yield from filtered(client, page_of(model, "changelist"))


def check_nothing_private(shown):
    """Assert that no page contains private text. Return whether one contains public text."""
    reads_public = False
    for address, page in shown:
        for word in (CANARY, PRIVATE_ID, REPLY):
            assert word not in page, address
        assert ">None<" not in page, address
        reads_public |= "open text" in page
    return reads_public


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        all_rows,
        pytest.param(all_pages, marks=pytest.mark.nightly("forms and histories, too")),
        pytest.param(
            all_actions_and_filters,
            marks=pytest.mark.nightly("tests/test_leaks.py runs each action once"),
        ),
    ],
)
def test_no_page_shows_private_text_to_an_operator(client, team, part):
    client.force_login(operator(team))
    assert check_nothing_private(part(client))


STAFF = [(staff_with_all_rights, True), (staff_from_elsewhere, False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "reads_public"),
    [STAFF[0], pytest.param(*STAFF[1], marks=pytest.mark.nightly("staff who read nothing"))],
)
def test_staff_read_only_texts_of_their_memberships(client, team, who, reads_public):
    client.force_login(who(team))
    assert check_nothing_private(pages(client, *lists())) is reads_public


@pytest.mark.nightly("every address of the admin once more, as staff")
@pytest.mark.parametrize(("who", "reads_public"), STAFF)
def test_no_page_shows_private_text_to_staff(client, team, who, reads_public):
    client.force_login(who(team))
    assert check_nothing_private(all_pages(client)) is reads_public
    check_nothing_private(deletions(client))


@pytest.mark.nightly("staff who read public text show that pages have text")
def test_an_operator_in_the_channel_reads_it(client, team):
    client.force_login(insider(team, is_superuser=True))
    addresses = set()
    for address, page in pages(client, *lists(), *change_pages(), *choices()):
        assert REPLY not in page, address
        check_content_policy(address, page)
        if CANARY in page:
            addresses.add(address)
    for model in (Channel, ChannelMember, Message, Segment, Memory, MemoryVersion, Proposal):
        assert page_of(model, "changelist") in addresses
    assert f"{page_of(Message, 'changelist')}?q={TYPED}" in addresses
    assert any(
        "autocomplete" in address and "field_name=channel&" in address for address in addresses
    )
    for model in (Channel, Message, Segment, Memory, MemoryVersion, Job, Note):
        rows = model.objects.visible_to(Reader.public())
        hidden = model.objects.exclude(pk__in=rows).values_list("pk", flat=True)
        assert hidden
        assert {page_of(model, "change", pk) for pk in hidden} <= addresses


def check_content_policy(address, page):
    """Assert that a page has no inline script or style, which `default-src 'self'` blocks."""
    for script in re.findall(r"<script\b[^>]*>", page):
        assert "src=" in script or 'type="application/json"' in script, (address, script)
    assert not re.search(r"<style\b|\sstyle=|\son[a-z]+=", page), address


def test_every_model_is_in_the_admin():
    assert {model._meta.label_lower for model in admin.site._registry} == ADMIN
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == "memories":
            assert model_admin.search_fields, model
            assert len(model_admin.list_display) > 1, model


def test_labels_in_mentions_are_not_shown(client, team):
    label = f"see <#{PRIVATE_ID}|{CANARY}-room>"
    room = ChannelFactory(workspace=team, topic=label, purpose=label)
    message = MessageFactory(channel=room, text=label, raw=json.dumps({"text": label}))
    client.force_login(operator(team))
    for row in (room, message):
        for page in ("changelist", "change"):
            address = page_of(type(row), page, *([row.pk] if page == "change" else []))
            text = unescape(client.get(address).content.decode())
            assert CANARY not in text
            assert (f"<#{PRIVATE_ID}>" in text) is (page == "change" or row is message)


def test_only_operators_see_calls_for_private_channels(client, team):
    """Their number reveals how busy the channel is."""
    private = Job.objects.filter(memory__channel__kind="private").values("pk")
    assert ModelCall.objects.filter(job__in=private).exists()
    for user, is_told in ((operator(team), True), (staff_with_all_rights(team), False)):
        client.force_login(user)
        page = client.get(reverse("admin:memories_modelcall_changelist"))
        shown = page.context["cl"].queryset
        assert shown.filter(job__in=private).exists() is is_told
        assert shown.exists()


def test_form_choices_have_no_private_channel(client, team):
    client.force_login(operator(team))
    private = Channel.objects.get(slack_id=PRIVATE_ID)
    response = client.post(
        reverse("admin:memories_note_add"),
        {"workspace": team.pk, "channel": private.pk, "content": "for them", "kind": ""},
    )
    assert response.status_code == 200
    assert "channel" in response.context["adminform"].form.errors
    assert CANARY not in response.content.decode()
    assert not Note.objects.filter(content="for them").exists()


def test_the_log_of_the_admin_contains_no_text(client, team):
    user = insider(team, is_superuser=True)
    client.force_login(user)
    private = Channel.objects.get(slack_id=PRIVATE_ID)
    note = {"workspace": team.pk, "channel": private.pk, "content": CANARY, "kind": ""}
    client.post(reverse("admin:memories_note_add"), note)
    added = Note.objects.get(content=CANARY)
    client.post(
        reverse("admin:memories_note_change", args=[added.pk]),
        note | {"kind": "pattern", "based_on": "1.0"},
    )
    client.post(reverse("admin:memories_note_delete", args=[added.pk]), {"post": "yes"})
    client.post(reverse("admin:memories_channel_change", args=[private.pk]), {})
    entries = LogEntry.objects.all()
    assert len(entries) == 4
    for entry in entries:
        assert CANARY not in f"{entry} {entry.object_repr} {entry.change_message}"
    # Nor on the front page, where one's own deeds are listed long after.
    client.get(reverse("admin:index"))  # this page shows the message of the previous action
    user.people.update(is_deleted=True)
    assert CANARY not in client.get(reverse("admin:index")).content.decode()


GUESSES = [
    "job/?reply__text__startswith=canary",
    "job/?fault_text__startswith=canary",
    "job/?reply_sources__contains=1",
    "job/?memory__scope_id__startswith=G",
    "job/?memory__channel__name__startswith=canary",
    "job/?base__content__contains=canary",
    "job/?inputs=1",
    "person/?channels=2",
    "person/?memberships__channel=2",
    "person/?messages__text__contains=canary",
    "workspace/?channels__name__startswith=canary",
    "workspace/?notes=2",
    "workspace/?budgets__tokens=2",
    "modelcall/?job__reply__text__startswith=canary",
    "modelcall/?job__memory__scope_id__startswith=G",
    "backfill/?channels=2",
    "backfill/?estimate__of__startswith=canary",
    "budget/?workspace__channels__name__startswith=canary",
    "user/?people__channels=2",
    "slackconnection/?encrypted_token__startswith=x",
    "slackevent/?body__contains=canary",
    "/admin/django_q/success/?result__contains=c",
    "/admin/django_q/failure/?args__contains=c",
    "/admin/django_q/schedule/?args__contains=c",
    "/admin/django_q/ormq/?payload__contains=c",
]


@pytest.mark.slow
def test_filters_reveal_no_hidden_text(client, team):
    client.force_login(operator(team))
    site = "/admin/memories/"
    answers = {guess: client.get(urljoin(site, guess)).status_code for guess in GUESSES}
    assert answers == dict.fromkeys(GUESSES, 400)


READ_ONLY = ["message", "segment", "memoryversion", "job", "channelmember", "heartbeat"]
READ_ONLY += ["modelcall", "endpoint", "backfill", "auditevent"]
KEPT = ["channel", "memory", "person"]


@pytest.mark.slow
def test_history_is_read_only(client, team):
    user = insider(team, is_superuser=True)
    client.force_login(user)
    # Rows without dependants, because Django refuses to delete rows that have some.
    PersonFactory(workspace=team)
    Memory.objects.of_channel(ChannelFactory(workspace=team), MemoryType.LONG_TERM)
    ChannelFactory(workspace=team)
    models = {model._meta.model_name: model for model in admin.site._registry}
    for name in READ_ONLY + KEPT:
        model = models[name]
        before = list(model._base_manager.order_by("pk").values())
        pk = before[-1]["id"]
        add, delete = page_of(model, "add"), page_of(model, "delete", pk)
        assert client.get(add).status_code == 403, name
        assert client.post(add, {}).status_code == 403, name
        assert client.post(delete, {"post": "yes"}).status_code == 403, name
        client.post(
            page_of(model, "changelist"),
            {"action": "delete_selected", "_selected_action": [pk], "post": "yes"},
        )
        if name in READ_ONLY:
            data = {"text": "x", "content": "x"}
            assert client.post(page_of(model, "change", pk), data).status_code == 403, name
        assert list(model._base_manager.order_by("pk").values()) == before, name
    assert client.post(page_of(Workspace, "delete", team.pk), {"post": "yes"}).status_code == 403
    assert Workspace.objects.get() == team


def test_staff_also_need_permissions_of_django(client, team):
    user = insider(team)
    client.force_login(user)
    message = Message.objects.first()
    address = reverse("admin:memories_message_change", args=[message.pk])
    assert client.get(address).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    assert client.get(address).status_code == 200
    assert client.get(reverse("admin:memories_memory_changelist")).status_code == 403


def test_the_raw_data_of_a_reply_has_no_copy_of_the_root(client, team):
    client.force_login(insider(team, is_superuser=True))
    message = Message.objects.first()
    raw = json.dumps({"text": "I agree", "root": {"text": "Said in private."}})
    Message.objects.filter(pk=message.pk).update(raw=raw)
    page = client.get(reverse("admin:memories_message_change", args=[message.pk])).content.decode()
    assert "I agree" in page and "Said in private" not in page


def queries_of(client, address):
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return len(queries)


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_the_number_of_queries_does_not_depend_on_rows(client, team):
    client.force_login(insider(team, is_superuser=True))
    models = [model for model in admin.site._registry if model._meta.app_label == "memories"]
    lists = [page_of(model, "changelist") for model in models]
    for address in lists:
        client.get(address)  # content types and such are read once
    before = {address: queries_of(client, address) for address in lists}
    for word in ("more", "and-more", "still-more"):
        workspace = WorkspaceFactory()
        fill(ChannelFactory(workspace=workspace, name=word), word)
        make_workspace_memory(workspace=workspace)
        person = PersonFactory(workspace=workspace, user=UserFactory())
        ChannelMemberFactory(channel=workspace.channels.get(), person=person)
        MemberFactory(workspace=workspace)
        AuditEvent.objects.record("login", by=None)
        SlackEvent.objects.create(event_id=word, team_id="T1", kind="message", state="failed")
        SlackConnection.objects.of(workspace).set_token("xoxb-1-one", by=None)
    assert {address: queries_of(client, address) for address in lists} == before


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_the_number_of_queries_does_not_depend_on_lines(client, team):
    client.force_login(operator(team))
    channel = ChannelFactory(workspace=team)
    message = MessageFactory(channel=channel)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    short = make_version(memory=memory, text="- one", sources=[message])
    long = make_version(memory=memory, text="- one\n- two\n- three\n- four", sources=[message])
    counts = [
        queries_of(client, reverse("admin:memories_memoryversion_change", args=[version.pk]))
        for version in (short, short, long)
    ]
    assert counts[1] == counts[2]
