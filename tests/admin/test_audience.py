"""Nobody reads a private channel in the admin without being in it, not even who runs everything.

Every text of a private channel carries a word; a crawl over all pages of the admin looks for it.
"""

import json
import re
from decimal import Decimal
from html import unescape

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memories.models import (
    Backfill,
    Call,
    Cap,
    Channel,
    Endpoint,
    Generation,
    Heartbeat,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Price,
    Reader,
    Segment,
    Workspace,
)
from memories.rules.memory import MemoryType
from tests.factories import (
    ChannelFactory,
    ChannelMemberFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_reply,
    make_segment,
    make_version,
    make_workspace_memory,
)

pytestmark = pytest.mark.django_db

# Searched for by its beginning, since a page repeats what was typed.
CANARY, TYPED = "canaryyellow", "canary"
# The private channel's Slack id, and so its memories' scope id.
PRIVATE_ID, TYPED_ID = "GYELLOW1", "GYELL"
REPLY = "replyofmodel"  # what a model answered: kept for the job, shown to nobody


def fill(channel, word):
    """Rows of every kind in a channel, each text with the word."""
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
        generation = Generation.objects.create(
            memory=memory,
            segment=segment,
            base=first,
            as_of_us=0,
            input_key=f"{memory.pk}",
            state="dead",
            fault="timeout",
            fault_text=f"{word} fault",
            reply={"text": f"{word} {REPLY}"},
        )
        generation.take_inputs([first])
        Call.objects.create(
            generation=generation,
            fence=1,
            workspace=channel.workspace,
            model="tiny",
            day=timezone.now().date(),
            began_at=timezone.now(),
            tokens=100,
        )
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


@pytest.fixture
def team():
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
    Cap.objects.change(workspace, "day", tokens=1000, by=None)
    for state, channels in (("done", [public]), ("paused", [public, private])):
        backfill = Backfill.objects.create(
            workspace=workspace, since_us=0, until_us=1, state=state, quote={"of": CANARY}
        )
        backfill.channels.set(channels)
    Backfill.objects.filter(state="done").update(quote={})
    return workspace


def insider(workspace, **account):
    """A user who is a person in the private channel."""
    user = UserFactory(is_staff=True, **account)
    person = PersonFactory(workspace=workspace, user=user)
    ChannelMemberFactory(channel=workspace.channels.get(slack_id=PRIVATE_ID), person=person)
    return user


def operator(workspace):
    return UserFactory(is_staff=True, is_superuser=True)


def operator_who_left(workspace):
    user = insider(workspace, is_superuser=True)
    user.people.update(is_deleted=True)
    return user


def staff_with_all_rights(workspace):
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    MemberFactory(workspace=workspace, user=user, role="admin")
    return user


def staff_from_elsewhere(workspace):
    user = UserFactory(is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


OUTSIDERS = [operator, operator_who_left, staff_with_all_rights, staff_from_elsewhere]


def addresses(row_pages):
    """The admin's pages for every private row and one public one, and all lists of choices."""
    yield reverse("admin:index")
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        listed = reverse(f"{name}_changelist")
        yield from (listed, f"{listed}?q={TYPED}", f"{listed}?q={TYPED_ID}", f"{listed}?e=1")
        yield reverse(f"{name}_add")
        for pk in keys_of(model):
            for page in row_pages:
                yield reverse(f"{name}_{page}", args=[pk])
        for field in model._meta.get_fields():
            if field.is_relation and field.concrete and field.related_model in admin.site._registry:
                yield (
                    f"{reverse('admin:autocomplete')}?app_label={model._meta.app_label}"
                    f"&model_name={model._meta.model_name}&field_name={field.name}&term={TYPED}"
                )


def keys_of(model):
    """Of rows that have readers, the private ones and a public one; of others all."""
    keys = model._base_manager.order_by("pk").values_list("pk", flat=True)
    if not hasattr(model._default_manager, "visible_to"):
        return list(keys)
    public = set(model._default_manager.visible_to(Reader.public()).values_list("pk", flat=True))
    return [key for key in keys if key not in public] + sorted(public)[:1]


def hidden_filters():
    """Lists narrowed to the private channel's rows by who knows their keys."""
    private = Channel.objects.get(slack_id=PRIVATE_ID)
    memory = private.memories.first()
    for name, query in (
        ("message", f"channel__id__exact={private.pk}"),
        ("segment", f"channel__id__exact={private.pk}"),
        ("note", f"channel__id__exact={private.pk}"),
        ("memory", f"channel__id__exact={private.pk}"),
        ("memoryversion", f"memory__id__exact={memory.pk}"),
        ("memoryversion", f"memory__channel__id__exact={private.pk}"),
        ("generation", f"memory__id__exact={memory.pk}"),
        ("channelmember", f"channel__id__exact={private.pk}"),
    ):
        yield f"{reverse(f'admin:memories_{name}_changelist')}?{query}"


def deletions():
    """The confirmation of "delete selected" for every row of every list."""
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        keys = list(model._base_manager.values_list("pk", flat=True))
        yield reverse(name), {"action": "delete_selected", "_selected_action": keys}


def crawl(client):
    """``(address, page)`` of the whole admin, with all that the filters of its lists lead to."""
    lists = {}
    for address, page in every_page(client):
        if "?" not in address:
            lists[address] = page
        yield address, page
    for address, page in lists.items():
        for link in sorted({unescape(found) for found in re.findall(r'href="(\?[^"]+)"', page)}):
            if not link.startswith(("?o=", "?_facets")):
                response = client.get(address + link)
                assert response.status_code == 200, address + link
                yield address + link, response.content.decode()


def every_page(client, row_pages=("change", "history", "delete")):
    for address in (*addresses(row_pages), *hidden_filters()):
        response = client.get(address, follow=True)
        assert response.status_code in (200, 403, 404), address
        yield address, response.content.decode()
    for address, data in deletions():
        yield f"{address}?{data}", client.post(address, data, follow=True).content.decode()


@pytest.mark.long
@pytest.mark.parametrize("who", OUTSIDERS)
def test_without_membership_no_private_text_anywhere(client, team, who):
    client.force_login(who(team))
    reads_public = False
    pages = crawl(client) if who is operator else every_page(client, ("change",))
    for address, page in pages:
        for word in (CANARY, PRIVATE_ID, REPLY):
            assert word not in page, address
        assert ">None<" not in page, address
        reads_public |= "open text" in page
    assert reads_public is (who is not staff_from_elsewhere)


@pytest.mark.long
def test_an_operator_who_is_in_the_channel_reads_it(client, team):
    client.force_login(insider(team, is_superuser=True))
    found = set()
    for address, page in every_page(client, ("change",)):
        assert REPLY not in page, address
        check_content_policy(address, page)
        if CANARY in page:
            found.add(address)
    for name in ("channel", "channelmember", "message", "segment", "memory", "memoryversion"):
        assert reverse(f"admin:memories_{name}_changelist") in found
    assert f"{reverse('admin:memories_message_changelist')}?q={TYPED}" in found
    assert any("autocomplete" in address and "field_name=channel&" in address for address in found)
    for model in (Channel, Message, Segment, Memory, MemoryVersion, Generation, Note):
        rows = model.objects.visible_to(Reader.public())
        hidden = model.objects.exclude(pk__in=rows).values_list("pk", flat=True)
        assert hidden
        for pk in hidden:
            assert reverse(f"admin:memories_{model._meta.model_name}_change", args=[pk]) in found


def check_content_policy(address, page):
    """No script or style of a page's own: under `default-src 'self'` it would not run."""
    for script in re.findall(r"<script\b[^>]*>", page):
        assert "src=" in script or 'type="application/json"' in script, (address, script)
    assert not re.search(r"<style\b|\sstyle=|\son[a-z]+=", page), address


def test_every_model_has_its_page(client, team):
    client.force_login(operator(team))
    names = {model._meta.model_name for model in admin.site._registry}
    assert names >= {
        "workspace",
        "member",
        "person",
        "channel",
        "channelmember",
        "message",
        "segment",
        "memory",
        "memoryversion",
        "generation",
        "note",
        "heartbeat",
        "user",
        "price",
        "cap",
        "call",
        "endpoint",
        "backfill",
        "auditevent",
    }
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == "memories":
            assert model_admin.search_fields, model
            assert len(model_admin.list_display) > 1, model


def test_the_name_that_slack_puts_beside_an_id_is_not_shown(client, team):
    label = f"see <#{PRIVATE_ID}|{CANARY}-room>"
    room = ChannelFactory(workspace=team, topic=label, purpose=label)
    message = MessageFactory(channel=room, text=label, raw=json.dumps({"text": label}))
    client.force_login(operator(team))
    for row in (room, message):
        for page in ("changelist", "change"):
            name = f"admin:memories_{row._meta.model_name}_{page}"
            address = reverse(name, args=[row.pk] if page == "change" else [])
            told = unescape(client.get(address).content.decode())
            assert CANARY not in told
            is_told = page == "change" or row is message
            assert (f"<#{PRIVATE_ID}>" in told) is is_told


def test_calls_for_a_private_channel_are_an_operators_to_count(client, team):
    """How many there are tells how busy it is."""
    private = Generation.objects.filter(memory__channel__kind="private").values("pk")
    assert Call.objects.filter(generation__in=private).exists()
    for user, is_told in ((operator(team), True), (staff_with_all_rights(team), False)):
        client.force_login(user)
        page = client.get(reverse("admin:memories_call_changelist"))
        shown = page.context["cl"].queryset
        assert shown.filter(generation__in=private).exists() is is_told
        assert shown.exists()


def test_choices_offer_no_private_channel(client, team):
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


def test_the_admins_log_names_no_text(client, team):
    user = insider(team, is_superuser=True)
    client.force_login(user)
    private = Channel.objects.get(slack_id=PRIVATE_ID)
    note = {"workspace": team.pk, "channel": private.pk, "content": CANARY, "kind": ""}
    client.post(reverse("admin:memories_note_add"), note)
    added = Note.objects.get(content=CANARY)
    client.post(reverse("admin:memories_note_change", args=[added.pk]), note | {"kind": "pattern"})
    client.post(reverse("admin:memories_note_delete", args=[added.pk]), {"post": "yes"})
    client.post(reverse("admin:memories_channel_change", args=[private.pk]), {})
    entries = LogEntry.objects.all()
    assert len(entries) == 4
    for entry in entries:
        assert CANARY not in f"{entry} {entry.object_repr} {entry.change_message}"
    # Nor on the front page, where one's own deeds are listed long after.
    client.get(reverse("admin:index"))  # this one still greets with what was just done
    user.people.update(is_deleted=True)
    assert CANARY not in client.get(reverse("admin:index")).content.decode()


READ_ONLY = ["message", "segment", "memoryversion", "generation", "channelmember", "heartbeat"]
READ_ONLY += ["call", "endpoint", "backfill", "auditevent"]
KEPT = ["channel", "memory", "person"]


@pytest.mark.parametrize(
    "query",
    [
        "generation/?reply__text__startswith=canary",
        "generation/?fault_text__startswith=canary",
        "generation/?cites__contains=1",
        "generation/?memory__scope_id__startswith=G",
        "generation/?memory__channel__name__startswith=canary",
        "generation/?base__content__contains=canary",
        "generation/?inputs=1",
        "person/?channels=2",
        "person/?memberships__channel=2",
        "person/?messages__text__contains=canary",
        "workspace/?channels__name__startswith=canary",
        "workspace/?notes=2",
        "workspace/?caps__tokens=2",
        "call/?generation__reply__text__startswith=canary",
        "call/?generation__memory__scope_id__startswith=G",
        "backfill/?channels=2",
        "backfill/?quote__of__startswith=canary",
        "cap/?workspace__channels__name__startswith=canary",
        "user/?people__channels=2",
    ],
)
def test_nobody_finds_out_by_guessing(client, team, query):
    client.force_login(operator(team))
    assert client.get(f"/admin/memories/{query}").status_code == 400


@pytest.mark.parametrize("name", READ_ONLY + KEPT)
def test_history_is_not_added_or_deleted_here(client, team, name):
    user = insider(team, is_superuser=True)
    client.force_login(user)
    model = next(m for m in admin.site._registry if m._meta.model_name == name)
    # Rows that nothing hangs on: those would not go for the sake of what does.
    PersonFactory(workspace=team)
    Memory.objects.of_channel(ChannelFactory(workspace=team), MemoryType.LONG_TERM)
    ChannelFactory(workspace=team)
    before = list(model._base_manager.order_by("pk").values())
    pk = before[-1]["id"]
    change = reverse(f"admin:memories_{name}_change", args=[pk])
    assert client.get(reverse(f"admin:memories_{name}_add")).status_code == 403
    assert client.post(reverse(f"admin:memories_{name}_add"), {}).status_code == 403
    delete = reverse(f"admin:memories_{name}_delete", args=[pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    client.post(
        reverse(f"admin:memories_{name}_changelist"),
        {"action": "delete_selected", "_selected_action": [pk], "post": "yes"},
    )
    if name in READ_ONLY:
        assert client.post(change, {"text": "x", "content": "x"}).status_code == 403
    assert list(model._base_manager.order_by("pk").values()) == before


def test_a_workspace_is_not_deleted_here(client, team):
    client.force_login(operator(team))
    address = reverse("admin:memories_workspace_delete", args=[team.pk])
    assert client.post(address, {"post": "yes"}).status_code == 403
    assert Workspace.objects.get() == team


def test_staff_need_djangos_permissions_as_well(client, team):
    user = insider(team)
    client.force_login(user)
    message = Message.objects.first()
    address = reverse("admin:memories_message_change", args=[message.pk])
    assert client.get(address).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_message"))
    assert client.get(address).status_code == 200
    assert client.get(reverse("admin:memories_memory_changelist")).status_code == 403


def queries_of(client, address):
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return len(queries)


def test_no_list_asks_more_for_more_rows(client, team):
    client.force_login(insider(team, is_superuser=True))
    lists = [
        reverse(f"admin:memories_{model._meta.model_name}_changelist")
        for model in admin.site._registry
        if model._meta.app_label == "memories"
    ]
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
    assert {address: queries_of(client, address) for address in lists} == before


def test_a_version_with_more_lines_asks_no_more(client, team):
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
