"""Exports: an import restores the same workspace, which continues like the original."""

import json
from datetime import timedelta

import pytest
from django.db.backends.base.operations import BaseDatabaseOperations

from memories.models import (
    AuditEvent,
    Backfill,
    Channel,
    Job,
    Line,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    Reader,
    Seen,
    Segment,
    User,
    Workspace,
)
from memories.pipeline.access import channel_audience
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.transfer.archive import ArchiveError
from memories.pipeline.transfer.export import schemas
from memories.pipeline.transfer.export.export_workspace import NotAReader
from memories.pipeline.transfer.export.import_workspace import import_workspace
from memories.rules.memory.identity import MemoryType
from memories.rules.transfer.schema import SchemaError, ts, ts_or_empty
from tests.exports import (
    MODELS,
    NOW,
    ODD,
    Forbidden,
    contents,
    exported,
    make_job,
    make_odd_workspace,
    moved,
    owner_of,
    proven,
    rewrite,
)
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    ts_at,
)

pytestmark = pytest.mark.django_db

on_postgres_too = pytest.mark.postgres("an export reads one snapshot")


@pytest.fixture(scope="module")
def odd_workspace(module_transaction):
    return make_odd_workspace()


@pytest.fixture
def workspace(odd_workspace, db):
    """The odd workspace, which is made once for all tests here."""
    return Workspace.objects.get(pk=odd_workspace.pk)


@on_postgres_too
@pytest.mark.slow
def test_an_export_of_an_import_has_the_same_bytes(workspace, tmp_path):
    workspace.save_team_id("T1")
    user = owner_of(workspace)
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    exported(moved(workspace, first, user), second, user)
    before, after = contents(first), contents(second)
    assert list(before) == list(after)
    assert [name for name in before if before[name] != after[name]] == []
    assert first.read_bytes() == second.read_bytes()
    counts = json.loads(before["manifest.json"])["counts"]
    assert all(counts.values()), "there are rows of every kind"


@pytest.mark.slow
def test_a_version_keeps_its_name(workspace, tmp_path):
    version = MemoryVersion.objects.filter(memory__workspace=workspace).first()
    version.rename("before the launch", by=None)
    copy = moved(workspace, tmp_path / "1.zip", owner_of(workspace))
    named = MemoryVersion.objects.filter(memory__workspace=copy).exclude(name="")
    assert [version.name for version in named] == ["before the launch"]


@pytest.mark.slow
def test_an_export_leaves_out_read_marks(workspace, tmp_path):
    user = owner_of(workspace)
    before, after = tmp_path / "1.zip", tmp_path / "2.zip"
    exported(workspace, before, user)
    for memory in Memory.objects.filter(workspace=workspace, head__gt=0):
        Seen.objects.of(user, memory).mark(1, NOW)
    assert Seen.objects.exists()
    exported(workspace, after, user)
    assert before.read_bytes() == after.read_bytes()
    workspace.delete()
    import_workspace(after)
    assert not Seen.objects.exists()


@pytest.mark.slow
def test_notes_keep_their_versions_and_the_trash(workspace, tmp_path):
    source_ts = workspace.notes.get(content="kept message").source.ts
    copy = moved(workspace, tmp_path / "1.zip", owner_of(workspace))
    note = copy.notes.get(number=4)
    assert [(v.number, v.content.partition(".")[0]) for v in note.versions.order_by("number")] == [
        *((1, "First"), (2, "Second"), (3, "Second")),
    ]
    assert [v.channel and v.channel.slack_id for v in note.versions.order_by("number")] == [
        *("C1", "C1", None),
    ]
    assert (note.restored_from, note.is_pinned, note.in_context) == (1, True, False)
    assert note.written_by.username == "海@example"
    assert copy.notes.get(content="kept message").source.ts == source_ts
    [deleted] = copy.notes.in_trash()
    assert (deleted.content, deleted.deleted_by.username) == ("still in the trash", "海@example")
    assert deleted.versions.get().content == "in the trash"


@pytest.mark.slow
def test_a_version_after_the_newest_is_refused(workspace, tmp_path):
    exported(workspace, tmp_path / "b.zip", owner_of(workspace))

    def wrong(files):
        files["notes.jsonl"] = files["notes.jsonl"].replace(b'"number": 2', b'"number": 9')

    rewrite(tmp_path / "b.zip", wrong, honest=True)
    with pytest.raises(ArchiveError, match="notes.jsonl, line 2: versions: 9 is not before 4"):
        import_workspace(tmp_path / "b.zip", slug="copy")


@pytest.mark.slow
def test_texts_from_a_private_time_are_only_for_members(workspace, tmp_path):
    member = workspace.channels.get(slack_id="G1").people.first()
    member.link(UserFactory(username="in it"), "slack")
    channel = workspace.channels.get(slack_id="G1")
    for minute, text in enumerate(("Said in private.", "Said in public.")):
        root = {"ts": ts_at(NOW), "text": "Said in private."} if minute else None
        raw = json.dumps({"text": text, "root": root})
        MessageFactory(channel=channel, at=NOW + timedelta(minutes=minute), text=text, raw=raw)
        if channel.kind == "private":
            channel.update_fields({"kind": "public"})
            channel_audience.publish(channel)
    outside, inside = tmp_path / "outside.zip", tmp_path / "inside.zip"
    exported(workspace, outside, UserFactory(username="boss", is_superuser=True))
    exported(workspace, inside, member.user)
    messages = {path: contents(path)["messages/G1.jsonl"] for path in (outside, inside)}
    assert b"Said in private" in messages[inside]
    assert b"Said in public" in messages[inside]
    assert b"Said in private" not in messages[outside]
    assert b"Said in public" in messages[outside]
    places = [json.loads(row)["ts"] for row in messages[outside].splitlines()]
    assert places == [json.loads(row)["ts"] for row in messages[inside].splitlines()]
    texts = [
        data.partition(b"\n---\n")[2]
        for name, data in contents(outside).items()
        if "/G1" in name and name.endswith(".md")
    ]
    assert len(texts) > 2
    assert set(texts) == {"[…]\n".encode()}
    assert import_workspace(outside, slug="copy").left_out["references"] > len(texts)


@pytest.mark.slow
def test_another_slug_changes_only_the_slug(workspace, tmp_path):
    user = owner_of(workspace)
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    exported(workspace, first, user)
    copy = proven(import_workspace(first, slug="copy").workspace, user)
    exported(copy, second, user)
    before, after = contents(first), contents(second)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"workspace.json", "manifest.json"}
    row = json.loads(after["workspace.json"])
    assert row | {"slug": workspace.slug} == json.loads(before["workspace.json"])


def test_each_version_is_a_readable_file(tmp_path):
    """Each version has a file of its own, in a folder with the name of the channel."""
    workspace = WorkspaceFactory()
    channel = ChannelFactory(workspace=workspace, slack_id="C1", name="launch")
    make_channel_memory(channel=channel, texts=["- one", "- two\n- 三"])
    exported(workspace, tmp_path / "b.zip")
    file = contents(tmp_path / "b.zip")["memories/channels/C1-launch/long_term/v0002.md"].decode()
    assert file.endswith("\n---\n- two\n- 三\n")
    assert "\nnumber: 2\n" in file


# Continuing after an import


@pytest.mark.nightly("quicker tests run the same lines")
def test_an_import_continues_like_the_original(workspace, tmp_path):
    """The same new messages lead to the same texts. No job of the original runs again."""
    user = owner_of(workspace)
    exported(workspace, tmp_path / "b.zip", user)
    copy = import_workspace(tmp_path / "b.zip", slug="copy").workspace
    assert run_pass(copy, NOW, Forbidden()).errors == []
    texts = {}
    for each in (workspace, copy):
        channel = each.channels.get(slack_id="C1")
        for i in range(6):
            author = each.people.get(slack_id="B1")
            at = NOW + timedelta(minutes=i)
            MessageFactory(channel=channel, at=at, author=author, text=f"Part {i} is late. {ODD}")
        report = run_pass(each, NOW + timedelta(hours=5))
        assert report.made and not report.errors
        texts[each.slug] = (
            report.made,
            report.closed,
            list(
                MemoryVersion.objects.filter(memory__workspace=each)
                .order_by("memory__pk", "number")
                .values_list(
                    "memory__scope_id",
                    *("number", "content", "put_back", "kept", "merged", "revision"),
                    *("source_message_count", "source_latest_message_ts"),
                )
            ),
        )
    assert texts[workspace.slug] == texts["copy"]


@pytest.mark.slow
def test_input_keys_still_match_after_an_import(workspace, tmp_path):
    """Input keys are computed from the new rows, and still match."""
    exported(workspace, tmp_path / "b.zip", owner_of(workspace))
    rows = [json.loads(line) for line in contents(tmp_path / "b.zip")["jobs.jsonl"].splitlines()]
    matching = {(*row["memory"][::2], row["provisional"]) for row in rows if row["inputs_hold"]}
    assert matching >= {
        ("channel", "short_term", False),
        ("channel", "long_term", False),
        ("workspace", "long_term", False),
        ("workspace", "short_term", False),
    }


def test_a_dead_thread_job_is_not_retried_after_an_import(tmp_path):
    channel = ChannelFactory()
    root = MessageFactory(channel=channel, at=MONDAY, text="root")
    for minute in range(1, 7):
        at = MONDAY + timedelta(minutes=minute)
        MessageFactory(channel=channel, at=at, thread_ts=root.ts, text="We ship.")
    channel.remember_from(root.micros)
    from memories.pipeline.generate.plan import plan_channel

    plan_channel(channel.pk, NOW)
    job = Job.objects.of_workspace(channel.workspace).get(memory__scope="thread")
    Job.objects.of_workspace(channel.workspace).update(state="dead", fault="refused")
    assert json.loads(exported_lines(channel.workspace, tmp_path)[-1])["inputs_hold"]
    channel.workspace.delete()
    copy = import_workspace(tmp_path / "b.zip").workspace
    run_pass(copy, NOW, Forbidden())
    jobs = Job.objects.of_workspace(copy)
    assert jobs.get(memory__scope="thread").pk != job.pk
    assert set(jobs.values_list("state", flat=True)) == {"dead"}
    assert jobs.get(memory__scope="thread").retry()


def exported_lines(workspace, tmp_path):
    exported(workspace, tmp_path / "b.zip")
    return contents(tmp_path / "b.zip")["jobs.jsonl"].splitlines()


@pytest.mark.nightly("quicker tests run the same lines")
@pytest.mark.parametrize("state", ["waiting", "claimed"])
def test_an_unfinished_job_stays_unfinished(tmp_path, state):
    """A claimed job waits again, because no worker of the new installation has claimed it."""
    channel = ChannelFactory()
    make_job(channel, state=state, attempts=2, fence=7, lease_until=NOW)
    exported(channel.workspace, tmp_path / "b.zip")
    channel.workspace.delete()
    copy = import_workspace(tmp_path / "b.zip").workspace
    imported = Job.objects.of_workspace(copy).get()
    assert (imported.state, imported.attempts, imported.lease_until) == ("waiting", 2, None)
    run_pass(copy, NOW)
    imported.refresh_from_db()
    assert imported.state == "done"
    assert imported.segment.outcome == "remembered"
    assert imported.versions.get().content


@pytest.mark.slow
@pytest.mark.parametrize("state", ["replied", "proposed", "dead"])
def test_an_unused_reply_is_exported(tmp_path, state):
    """It includes the messages that it cites, so the reply is not paid twice."""
    channel = ChannelFactory()
    reply = {
        "text": "- We ship on Friday. [1]",
        "finish_reason": "stop",
        "model": "tiny",
        "prompt_version": "p",
        "prompt_tokens": 5,
    }
    job = make_job(channel, state=state, reply=reply, fault="unexpected")
    source = job.segment.messages.get()
    job.reply_sources = [[source.pk]]
    job.save()
    exported(channel.workspace, tmp_path / "b.zip")
    channel.workspace.delete()
    copy = import_workspace(tmp_path / "b.zip").workspace
    imported = Job.objects.of_workspace(copy).get()
    assert imported.reply == reply
    assert imported.reply_sources == [[Message.objects.get(channel__workspace=copy).pk]]
    if state == "replied":
        report = run_pass(copy, NOW)
        assert (report.errors, report.made["channel short_term"]) == ([], 1)
        [line] = imported.versions.get().lines.all()
        assert (line.text, line.sources.get().ts) == ("- We ship on Friday.", source.ts)


@pytest.mark.slow
def test_a_used_reply_is_left_out(workspace, tmp_path):
    lines = exported_lines(workspace, tmp_path)
    rows = [json.loads(line) for line in lines]
    assert {row["state"] for row in rows} == {"done"}
    assert all(row["reply"] is None and row["reply_sources"] == [] for row in rows)


@pytest.mark.slow
def test_an_unfinished_backfill_is_imported_as_paused(workspace, tmp_path):
    """The importing side decides if it pays for the rest."""
    channel = workspace.channels.get(slack_id="C1")
    make_job(channel, state="waiting", backfill=workspace.backfills.get())
    exported(workspace, tmp_path / "b.zip")
    copy = import_workspace(tmp_path / "b.zip", slug="copy").workspace
    backfill = copy.backfills.get()
    assert (backfill.state, backfill.jobs.count()) == ("paused", 1)
    assert backfill.parts.get().channel.workspace == copy
    run_pass(copy, NOW, Forbidden())
    assert backfill.jobs.get().state == "waiting"


# Access


@pytest.mark.slow
def test_a_public_reader_gets_nothing_private(workspace, tmp_path):
    secrets = [
        *workspace.channels.filter(kind="private").values_list("name", "slack_id")[0],
        "secret note",
    ]
    done = exported(workspace, tmp_path / "b.zip")
    assert done.left_out["channels"] == 1
    everything = "\n".join(
        name + data.decode() for name, data in contents(tmp_path / "b.zip").items()
    )
    assert not [word for word in secrets if word in everything]
    assert "owner@example.org" not in everything
    copy = import_workspace(tmp_path / "b.zip", slug="copy").workspace
    assert run_pass(copy, NOW, Forbidden()).errors == []
    assert not copy.channels.filter(kind="private").exists()


@pytest.mark.slow
def test_an_operator_without_membership_gets_nothing_private(workspace, tmp_path):
    operator = UserFactory(is_superuser=True)
    assert exported(workspace, tmp_path / "b.zip", operator).left_out["channels"] == 1


@pytest.mark.slow
def test_a_member_gets_their_private_channels(workspace, tmp_path):
    user = UserFactory()
    private = workspace.channels.get(slack_id="G1")
    private.people.add(PersonFactory(workspace=workspace, user=user, email="me@example.org"))
    assert exported(workspace, tmp_path / "b.zip", user).left_out["channels"] == 0
    assert b"me@example.org" not in contents(tmp_path / "b.zip")["people.jsonl"]


@pytest.mark.slow
def test_an_account_of_the_same_name_opens_no_private_channel(workspace, tmp_path):
    """An export proves nothing. The person with this name signs in with Slack first."""
    user = UserFactory(is_superuser=True)
    private = workspace.channels.get(slack_id="G1")
    private.people.add(PersonFactory(workspace=workspace, user=user))
    exported(workspace, tmp_path / "b.zip", user)
    copy = import_workspace(tmp_path / "b.zip", slug="copy").workspace
    linked = copy.people.get(user=user)
    assert linked.linked_by == "slack" and linked.link_valid_until is not None
    closed = copy.channels.get(slack_id="G1")
    assert not Channel.objects.visible_to(Reader.of(user)).filter(pk=closed.pk).exists()
    linked.link(user, "slack", was=user)
    assert Channel.objects.visible_to(Reader.of(user)).filter(pk=closed.pk).exists()


@pytest.mark.slow
def test_outsiders_and_guests_cannot_export(workspace, tmp_path):
    guest = UserFactory()
    PersonFactory(workspace=workspace, user=guest, is_guest=True)
    for user in (guest, UserFactory()):
        with pytest.raises(NotAReader):
            exported(workspace, tmp_path / "b.zip", user)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_references_to_hidden_channels_are_left_out(workspace, tmp_path):
    """The channel was public when the workspace memory read it, and is private now."""
    workspace.channels.filter(slack_id="C1").update(kind="private")
    done = exported(workspace, tmp_path / "b.zip")
    assert done.left_out["channels"] == 2
    assert done.left_out["references"] > 0
    copy = import_workspace(tmp_path / "b.zip", slug="copy").workspace
    memory = Memory.objects.with_current().of_workspace(copy, MemoryType.LONG_TERM)
    assert memory.current is not None
    assert not Line.sources.through.objects.filter(line__version=memory.current).exists()


@pytest.mark.slow
def test_export_and_import_are_recorded(workspace, tmp_path):
    user = owner_of(workspace)
    exported(workspace, tmp_path / "b.zip", user)
    import_workspace(tmp_path / "b.zip", slug="copy")
    import_event, export_event = AuditEvent.objects.filter(action__in=("export", "import"))
    assert (export_event.action, export_event.actor, export_event.workspace) == (
        "export",
        "owner",
        workspace.slug,
    )
    assert (import_event.action, import_event.actor, import_event.workspace) == (
        "import",
        "",
        "copy",
    )
    assert export_event.details["counts"] == import_event.details["counts"] | {"backfills": 1}
    assert export_event.details["left_out"] == {"channels": 0, "references": 0}


# Accounts


@pytest.mark.slow
def test_an_author_in_another_spelling_is_the_same_account(workspace, tmp_path):
    """A second account would lock both out, because sign-ins do not tell them apart."""
    author = User.objects.get(username="海@example")
    User.objects.filter(pk=author.pk).update(username="Umi@example")
    exported(workspace, tmp_path / "b.zip")
    workspace.delete()
    User.objects.filter(pk=author.pk).update(username="umi@example")
    done = import_workspace(tmp_path / "b.zip")
    assert (done.accounts_made, done.accounts_known) == (0, 1)
    assert MemoryVersion.objects.filter(author=author, origin="person").exists()


@on_postgres_too
@pytest.mark.slow
def test_unknown_authors_keep_their_names_and_cannot_sign_in(workspace, tmp_path):
    exported(workspace, tmp_path / "b.zip")
    workspace.delete()
    User.objects.filter(username="海@example").delete()
    done = import_workspace(tmp_path / "b.zip")
    assert (done.accounts_made, done.accounts_known) == (1, 0)
    author = User.objects.get(username="海@example")
    assert not author.is_active and not author.has_usable_password()
    assert not author.is_staff and not author.is_superuser
    assert MemoryVersion.objects.filter(author=author, origin="person").exists()


# The file


@pytest.mark.slow
def test_the_file_is_private_and_is_not_replaced(workspace, tmp_path):
    path = tmp_path / "b.zip"
    exported(workspace, path)
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    with pytest.raises(FileExistsError):
        exported(workspace, path)
    workspace.notes.all().delete()
    exported(workspace, path, force=True)
    assert path.read_bytes() != whole
    assert list(tmp_path.iterdir()) == [path]


@on_postgres_too
@pytest.mark.slow
def test_an_interrupted_export_leaves_no_file(workspace, tmp_path):

    def stop(name, rows):
        raise KeyboardInterrupt

    MessageFactory.create_batch(500, channel=workspace.channels.get(slack_id="C2"))
    with pytest.raises(KeyboardInterrupt):
        exported(workspace, tmp_path / "b.zip", on_progress=stop)
    assert list(tmp_path.iterdir()) == []
    assert not AuditEvent.objects.filter(action="export").exists()


# New columns


LEFT_OUT = {
    # Row ids belong to one database. Files and folders replace these relations.
    *{f"{m.__name__}.{name}" for m in MODELS for name in ("id", "workspace", "memory")},
    *("Message.channel", "ChannelMember.channel", "Line.version", "BackfillChannel.backfill"),
    *("JobInput.job", "Line.position", "Backfill.finished", "Budget.period"),
    "Message.micros",  # the ts as a number
    "Message.stored_at",  # when this installation stored it
    # The rows that this installation had at a past time.
    *("Channel.earlier_starts", "Segment.created_us", "Line.outcome_us"),
    *("Workspace.pass_queued_at", "Workspace.pass_due_at"),  # a task of this installation
    # What the app sees of it: the app and its token stay with this installation.
    *("Channel.bot_is_in", "Channel.access_narrowed_at", "Channel.members_changed_at"),
    "Message.replies_read_at",
    *("Message.has_unread_replies", "Message.thread_read_to_ts"),
    "Person.link_valid_until",  # a link in an export proves nothing
    *("Workspace.next_sync_at", "Workspace.listed_at"),
    *("Job.fence", "Job.lease_until"),  # no worker there has claimed it
    *("Job.form", "Job.failed_at"),  # of the endpoint of this installation
    "Job.input_key",  # computed again, see job_keys.py
    "MemoryVersion.content",  # the text behind the front
    *("Budget.tokens", "Budget.money", "Member.user", "Member.role"),  # in workspace.json
    *("ChannelMember.person", "BackfillChannel.channel", "BackfillChannel.start_us_before"),
    *("JobInput.version", "JobInput.revision"),
    "Note.revision",  # of one database: what an open form was based on
}
SCHEMAS = {
    Workspace: schemas.WORKSPACE,
    Person: schemas.PERSON,
    Channel: schemas.CHANNEL,
    Message: schemas.MESSAGE,
    Segment: schemas.SEGMENT,
    Backfill: schemas.BACKFILL,
    Memory: schemas.MEMORY,
    MemoryVersion: schemas.VERSION,
    Line: schemas.LINE,
    Job: schemas.JOB,
    Note: schemas.NOTE,
}


@pytest.mark.parametrize("model", SCHEMAS, ids=lambda model: model.__name__)
def test_every_column_is_exported_or_left_out_on_purpose(model):
    columns = {field.name for field in model._meta.concrete_fields}
    named = {name for name in columns if f"{model.__name__}.{name}" in LEFT_OUT}
    assert columns - named <= set(SCHEMAS[model].checks)


@pytest.mark.parametrize("model", SCHEMAS, ids=lambda model: model.__name__)
def test_schemas_accept_only_values_that_columns_can_store(model):
    for field in model._meta.concrete_fields:
        check = SCHEMAS[model].checks.get(field.name)
        if check is None or field.is_relation or field.name == "state":
            continue
        if field.choices:
            for word, _ in field.choices:
                assert check(word) == word
            refused = "no such word"
        elif "Integer" in field.get_internal_type():
            _, most = BaseDatabaseOperations.integer_field_ranges[field.get_internal_type()]
            refused = most + 1
        elif field.max_length and check not in (ts, ts_or_empty):
            refused = "a" * (field.max_length + 1)
        else:
            continue
        with pytest.raises(SchemaError):
            check(refused)
