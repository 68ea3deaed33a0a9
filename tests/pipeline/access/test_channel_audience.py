"""A channel changes its readers: earlier content stays with those who could read it then.

The changes come from Slack through the roster. Memories come from passes with the offline
summariser, which quotes, so that each channel's word can be searched for.
"""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Channel,
    ChannelSync,
    Job,
    MemoryVersion,
    Message,
    Note,
    Person,
    Proposal,
    QuarantinedLine,
    Reader,
    Segment,
    User,
)
from memories.pipeline.access import channel_audience
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.passes import configured_summariser, run_pass
from memories.pipeline.generate.requests import MixedAudience, RequestBuilder
from memories.pipeline.ingest.roster import store_channels
from memories.pipeline.memory import proposals
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Origin
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_job,
    make_reply,
    make_version,
    make_workspace_memory,
)
from tests.llm.endpoint import use_model
from tests.pipeline.current import long, short, workspace_memory
from tests.pipeline.metered import Metered

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LATER = MONDAY + 3 * HOUR
NEXT_DAY = MONDAY + 24 * HOUR


@pytest.fixture
def team():
    return WorkspaceFactory(settings={"thread_min_messages": 2, "workspace_short_term": False})


def make_channel(team, word, kind="public", **given):
    """Create a channel with a member. Its word was posted on Monday morning."""
    insider = PersonFactory(workspace=team, user=UserFactory())
    channel = ChannelFactory(workspace=team, name=f"{word}-room", kind=kind, **given)
    channel.memberships.create(person=insider)
    channel.set_members_known(timezone.now())
    channel.remember_from(to_micros(MONDAY))
    talk(channel, word)
    return channel


def talk(channel, word, begin=MONDAY):
    authors = PersonFactory.create_batch(2, workspace=channel.workspace)
    for minute in range(6):
        MessageFactory(
            channel=channel,
            author=authors[minute % 2],
            at=begin + timedelta(minutes=minute),
            text=f"We decided that {word} number {minute} ships on Friday {minute + 1} January.",
        )


def say(channel, text, at=MONDAY + timedelta(minutes=10), **author):
    """A message of a new person of the workspace."""
    person = PersonFactory(workspace=channel.workspace, **author)
    return MessageFactory(channel=channel, author=person, at=at, text=text)


def slack_says(channel, **what):
    """The channel as a sync finds it now."""
    raw = {"id": channel.slack_id, "name": channel.name, **what}
    kind = "private" if what.get("is_private") else "public"
    store_channels(channel.workspace, [(raw, kind)], known_at=timezone.now(), live=True)
    channel.refresh_from_db()


def member(team):
    """Return a reader of public channels only."""
    return Reader.of(MemberFactory(workspace=team).user)


def insider(channel):
    return Reader.of(channel.memberships.get().person.user)


def texts(reader):
    versions = MemoryVersion.objects.visible_to(reader).values_list("content", flat=True)
    messages = Message.objects.visible_to(reader).values_list("text", flat=True)
    notes = Note.objects.visible_to(reader).values_list("content", flat=True)
    return "\n".join([*versions, *messages, *notes])


def context(team, reader, channel=None, now=LATER):
    return build_context(
        team, reader, channel=channel.slack_id if channel else None, with_notes=True, now=now
    ).text


@pytest.fixture
def opened(team):
    """A channel that was remembered while it was private, with a thread and a note, and turned
    public."""
    channel = make_channel(team, "cobalt", kind="private")
    root = channel.messages.order_by("micros").first()
    for minute in range(4):
        make_reply(root=root, at=MONDAY + timedelta(minutes=10 + minute), text=f"cobalt {minute}")
    NoteFactory(workspace=team, channel=channel, content="cobalt is a colour")
    run_pass(team, LATER)
    assert channel.memories.filter(scope="thread", current__isnull=False).exists()
    slack_says(channel, is_private=False)
    assert channel.is_public
    return channel


# -- public → private


@pytest.mark.slow
def test_a_channel_turned_private_leaves_the_workspace_memory_at_once(team):
    open_, closing = make_channel(team, "aurora"), make_channel(team, "basalt")
    run_pass(team, LATER)
    before = workspace_memory(open_).current.content
    assert "aurora" in before and "basalt" in before
    reader = member(team)
    slack_says(closing, is_private=True)
    assert "basalt" not in texts(reader)
    assert "basalt" in texts(insider(closing))
    assert "basalt" not in context(team, reader)
    assert workspace_memory(open_).current is None
    run_pass(team, LATER + HOUR)
    after = workspace_memory(open_).current.content
    assert "aurora" in after and "basalt" not in after
    assert "basalt" not in texts(reader)


@pytest.mark.slow
def test_a_version_from_before_the_channel_came_in_stays(team):
    first = make_channel(team, "aurora")
    run_pass(team, LATER)
    old = workspace_memory(first).current
    second = make_channel(team, "basalt")
    run_pass(team, LATER + HOUR)
    assert workspace_memory(first).current != old
    slack_says(second, is_private=True)
    assert workspace_memory(first).current == old


@pytest.mark.slow
def test_edits_of_a_text_with_a_private_source_are_withheld(team):
    """The author of each word in an edited text is unknown."""
    channel = make_channel(team, "basalt")
    run_pass(team, LATER)
    memory = workspace_memory(channel)
    memory.revise("- the stone one ships", by=None, based_on=memory.current.number)
    slack_says(channel, is_private=True)
    assert workspace_memory(channel).current is None


def test_a_version_with_unknown_sources_is_withheld(team):
    channel = make_channel(team, "basalt")
    make_workspace_memory(workspace=team, texts=["- from somewhere"])
    slack_says(channel, is_private=True)
    assert workspace_memory(channel).current is None


def test_a_proposal_with_a_private_source_is_withdrawn(team):
    channel = make_channel(team, "basalt")
    memory = make_workspace_memory(workspace=team, texts=["- a\n- b"])
    MemoryVersion.objects.update(origin=Origin.PERSON)  # rests on nobody's channel
    source = make_channel_memory(channel=channel, texts=["- basalt"]).current
    job = make_job(memory=memory, base=memory.current, state="proposed", inputs=[source])
    assert proposals.find_proposal(memory) == job
    slack_says(channel, is_private=True)
    assert proposals.find_proposal(memory) is None
    job.refresh_from_db()
    assert job.state == "superseded"
    assert memory.current_id  # which rested on nothing of it


# -- private → public


@pytest.mark.slow
def test_private_content_is_not_published(team, opened):
    reader, member_of_it = member(team), insider(opened)
    assert "cobalt" not in texts(reader)
    assert "cobalt" not in context(team, reader, opened).replace("cobalt-room", "")
    run_pass(team, LATER + HOUR)
    assert "cobalt" not in texts(reader)
    assert not MemoryVersion.objects.filter(memory__scope="workspace").exists()
    assert Job.objects.count() >= 2
    for model in (MemoryVersion, Message, Note, Segment, Job):
        assert not model.objects.visible_to(reader).exists(), model
        assert model.objects.visible_to(member_of_it).count() == model.objects.count(), model
    assert "cobalt is a colour" in context(team, member_of_it, opened)
    # A fault of a job may quote the request.
    for who, is_readable in ((reader, False), (member_of_it, True)):
        rows = Job.objects.with_is_readable(who)
        assert {row.is_readable for row in rows} == {is_readable}


def test_an_approval_publishes_no_text_from_private_days(team):
    channel = make_channel(team, "cobalt", kind="private")
    by, reader = insider(channel), member(team)
    editor = User.objects.get(pk=by.user_id)
    memory = make_channel_memory(channel=channel, texts=["- a colour"])
    stopped, unsourced = (
        QuarantinedLine.objects.create(memory=memory, text=text, rule="link")
        for text in ("cobalt one", "cobalt two")
    )
    stopped.sources.set(channel.messages.all())
    proposal = Proposal.objects.propose(memory.current, None, "cobalt three", author=editor)
    slack_says(channel, is_private=False)
    assert not QuarantinedLine.objects.filter(pk=unsourced.pk).exists()
    memory.refresh_from_db()
    version = stopped.approve(by=editor, based_on=0)
    assert version.audience == "members" and memory.current is None
    make_version(memory=memory, text="- in public", audience="scope")
    memory.refresh_from_db()
    proposal.refresh_from_db()
    version = proposal.approve(by=editor, based_on=memory.current.number)
    memory.refresh_from_db()
    assert (version.audience, memory.current.content) == ("members", "- in public")
    assert "cobalt" not in texts(reader) and "cobalt three" in texts(by)


def test_a_proposal_from_private_days_for_a_public_version_is_deleted(team):
    channel = make_channel(team, "cobalt")
    memory = make_channel_memory(channel=channel, texts=["- a colour"])
    slack_says(channel, is_private=True)
    channel.workspace.mark_listed(timezone.now())
    old = {"updated_at": timezone.now() - 2 * HOUR}
    MemoryVersion.objects.update(**old)
    Channel.objects.update(private_since=timezone.now() - HOUR)
    Proposal.objects.propose(memory.current, None, "cobalt three", author=None)
    channel.refresh_from_db()
    slack_says(channel, is_private=False)
    assert memory.versions.get().audience == "scope"
    assert not Proposal.objects.exists()


def test_a_note_from_public_days_that_was_pinned_in_private_ones_stays_public(team):
    channel = make_channel(team, "cobalt", kind="private")
    old = timezone.now() - 2 * HOUR
    public = NoteFactory(workspace=team, channel=channel, written_at=old)
    private = NoteFactory(workspace=team, channel=channel)
    Channel.objects.update(private_since=timezone.now() - HOUR)
    public.set_flags(is_pinned=True)
    channel.refresh_from_db()
    slack_says(channel, is_private=False)
    assert list(Note.objects.visible_to(member(team))) == [public]
    assert private in Note.objects.visible_to(insider(channel))


def test_quarantined_lines_of_the_workspace_go_with_their_channel(team):
    channel = make_channel(team, "cobalt")
    memory = make_workspace_memory(workspace=team, texts=["- a"])
    sources = [channel.messages.first().pk]
    Proposal.objects.propose(memory.current, None, "cobalt two", author=None, sources=sources)
    line = QuarantinedLine.objects.create(memory=memory, text="cobalt one", rule="link")
    line.sources.set(channel.messages.all())
    assert QuarantinedLine.objects.visible_to(insider(channel)).exists()
    slack_says(channel, is_private=True)
    assert not QuarantinedLine.objects.visible_to(insider(channel)).exists()
    assert not Proposal.objects.exists()


def test_the_error_of_a_sync_is_not_published(team):
    channel = ChannelFactory(workspace=team, kind="private")
    sync = ChannelSync.objects.create(channel=channel, error_code="x", error_text="cobalt-room")
    slack_says(channel, is_private=False)
    sync.refresh_from_db()
    assert (sync.error_code, sync.error_text) == ("", "")


@pytest.mark.slow
def test_messages_after_the_opening_are_public(team, opened):
    talk(opened, "dahlia", NEXT_DAY)
    run_pass(team, NEXT_DAY + 3 * HOUR)
    reader = member(team)
    for memory in (short(opened), long(opened), workspace_memory(opened)):
        assert "dahlia" in memory.current.content
    assert "dahlia" in context(team, reader, now=NEXT_DAY + 3 * HOUR)
    assert "cobalt" not in texts(reader)
    assert "cobalt" in texts(insider(opened))


def test_a_talk_that_went_on_while_it_turned_public_is_for_its_members(team):
    """One segment holds words of both days: its summary rests on private ones."""
    channel = make_channel(team, "cobalt", kind="private")
    slack_says(channel, is_private=False)
    talk(channel, "dahlia", MONDAY + timedelta(minutes=30))
    run_pass(team, LATER)
    version = short(channel).versions.get()
    assert version.audience == "members" and version.segment.message_count == 12
    assert short(channel).current is None and workspace_memory(channel).head == 0
    assert "dahlia" in texts(member(team))  # the messages themselves
    assert "cobalt" not in texts(member(team))


@pytest.mark.slow
def test_a_restored_private_text_is_for_members_only(team, opened):
    memory = long(opened)
    old = memory.versions.visible_to(insider(opened)).get()
    assert memory.restore(old, by=None, based_on=0).audience == "members"
    assert long(opened).current is None
    assert "cobalt" not in texts(member(team))
    version = long(opened).revise("- a fresh start", by=None, based_on=0)
    assert (version.number, version.audience) == (3, "scope")
    assert long(opened).current == version


@pytest.mark.slow
def test_back_and_forth_publishes_nothing(team, opened):
    for private in (True, False):
        slack_says(opened, is_private=private)
        run_pass(team, LATER + HOUR)
    assert "cobalt" not in texts(member(team))


@pytest.mark.slow
def test_earlier_public_content_is_public_again(team):
    """As when Slack did not list the channel for a while. Only content of that time is withheld."""
    channel = make_channel(team, "aurora")
    run_pass(team, LATER)
    team.mark_listed(MONDAY + 4 * HOUR)
    slack_says(channel, is_private=True)
    talk(channel, "cobalt", NEXT_DAY)
    NoteFactory(workspace=team, channel=channel, content="cobalt is a colour")
    run_pass(team, NEXT_DAY + 3 * HOUR)
    assert "cobalt" in long(channel).current.content
    channel.workspace.refresh_from_db()
    slack_says(channel, is_private=False)
    run_pass(team, NEXT_DAY + 4 * HOUR)
    reader = member(team)
    assert "aurora" in long(channel).current.content
    assert "aurora" in workspace_memory(channel).current.content
    assert "aurora" in texts(reader) and "cobalt" not in texts(reader)
    assert "cobalt" in texts(insider(channel))


@pytest.mark.slow
def test_an_edit_of_an_old_message_publishes_nothing(team, opened):
    opened.segments.update(stale=True)
    before = short(opened).versions.get()
    run_pass(team, LATER + HOUR)
    after = short(opened).versions.get()
    assert (after.number, after.revision) > (before.number, before.revision)
    assert "cobalt" not in texts(member(team))


@pytest.mark.slow
def test_a_pinned_private_line_enters_no_public_text(team):
    """All private messages of its segment are deleted, but a pinned line quotes them."""
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    short(channel).pin(0, by=None, based_on=1)
    slack_says(channel, is_private=False)
    Message.objects.update(was_private=False, text="Nothing of the kind was decided on Friday.")
    channel.segments.update(stale=True)
    run_pass(team, LATER + HOUR)
    assert "cobalt" in short(channel).versions.get().content
    assert short(channel).current is None


# -- opting in


@pytest.mark.slow
def test_opting_in_publishes_the_long_term_text_and_no_more(team):
    team.change_settings({"workspace_short_term": True})
    secret = make_channel(team, "ember", kind="private")
    make_channel(team, "aurora")
    run_pass(team, LATER)
    by = UserFactory()
    assert channel_audience.set_opt_in(secret, by=by, on=True)
    assert not channel_audience.set_opt_in(secret, by=by, on=True)
    run_pass(team, LATER + HOUR)
    reader = member(team)
    assert "ember" in workspace_memory(secret).current.content
    short_term = workspace_memory(secret, MemoryType.SHORT_TERM).current.content
    assert "aurora" in short_term and "ember" not in short_term
    assert not MemoryVersion.objects.visible_to(reader).filter(memory__channel=secret).exists()
    assert not Message.objects.visible_to(reader).filter(channel=secret).exists()
    assert "(Includes #ember-room, private, by opt-in.)\n" in context(team, reader)
    events = AuditEvent.objects.filter(action__startswith="channel_opt")
    assert [(e.action, e.actor, e.subject) for e in events] == [
        ("channel_opt_in", by.username, f"channel {secret.pk}")
    ]


@pytest.mark.slow
def test_opting_out_removes_the_channel(team):
    secret = make_channel(team, "ember", kind="private")
    make_channel(team, "aurora")
    channel_audience.set_opt_in(secret, by=None, on=True)
    run_pass(team, LATER)
    assert "ember" in workspace_memory(secret).current.content
    assert channel_audience.set_opt_in(secret, by=None, on=False)
    reader = member(team)
    assert "ember" not in texts(reader) and "ember" not in context(team, reader)
    run_pass(team, LATER + HOUR)
    assert "aurora" in workspace_memory(secret).current.content
    assert "ember" not in texts(reader)
    # And once more: the same text is owed again.
    channel_audience.set_opt_in(secret, by=None, on=True)
    run_pass(team, LATER + 2 * HOUR)
    assert "ember" in workspace_memory(secret).current.content


def test_the_word_ends_when_the_channel_is_another(team):
    secret = make_channel(team, "ember", kind="private")
    channel_audience.set_opt_in(secret, by=None, on=True)
    slack_says(secret, is_private=False)
    assert not secret.in_workspace_memory
    slack_says(secret, is_private=True)
    run_pass(team, LATER)
    assert workspace_memory(secret).head == 0


@pytest.mark.parametrize("kind", ["public", "im", "mpim"])
def test_nothing_to_opt_in(team, kind):
    channel = ChannelFactory(workspace=team, kind=kind)
    assert not channel_audience.set_opt_in(channel, by=None, on=True)
    channel.refresh_from_db()
    assert not channel.in_workspace_memory and not AuditEvent.objects.exists()


# -- shared with another organisation


@pytest.mark.slow
def test_a_shared_channel_flows_by_opt_in_and_again_once_it_is_not_shared(team):
    channel = make_channel(team, "fjord")
    run_pass(team, LATER)
    assert "fjord" in workspace_memory(channel).current.content
    slack_says(channel, is_ext_shared=True)
    assert workspace_memory(channel).current is None
    run_pass(team, LATER + HOUR)
    assert "fjord" in long(channel).current.content
    assert workspace_memory(channel).current is None
    slack_says(channel, is_ext_shared=False)
    run_pass(team, LATER + 2 * HOUR)
    assert "fjord" in workspace_memory(channel).current.content
    slack_says(channel, is_ext_shared=True)
    assert channel_audience.set_opt_in(channel, by=None, on=True)
    run_pass(team, LATER + 3 * HOUR)
    assert "fjord" in workspace_memory(channel).current.content


def test_a_reference_that_not_all_may_read_is_refused(team):
    secret, open_ = make_channel(team, "ember", kind="private"), make_channel(team, "aurora")
    make_channel_memory(channel=secret, texts=["- ember"])
    with pytest.raises(MixedAudience):
        RequestBuilder(team)._reference("memory", long(secret), long(open_))
    make_workspace_memory(workspace=team)
    assert RequestBuilder(team)._reference("memory", workspace_memory(open_), long(secret))
    ChannelFactory(workspace=team, members=[PersonFactory(workspace=team, is_guest=True)])
    Channel.objects.filter(pk=open_.pk).update(members_known_at=None)
    with pytest.raises(MixedAudience):
        RequestBuilder(team)._reference("memory", workspace_memory(open_), long(open_))


@pytest.mark.slow
@pytest.mark.parametrize("audience", ["scope", "members", "nobody"])
@pytest.mark.parametrize("kind", ["public", "private"])
def test_restricted_versions_are_not_merged(team, kind, audience):
    """The inputs of a job are checked again before the model is called."""
    source = make_channel(team, "ember", kind=kind)
    version = make_version(
        memory=long(source), text="- We decided to name the project ember on 5 May"
    )
    MemoryVersion.objects.update(audience=audience)
    flows = (kind, audience) == ("public", "scope")
    expected = {workspace_memory(source): flows, long(make_channel(team, "aurora")): False}
    jobs = [make_job(memory=memory, inputs=[version]) for memory in expected]
    run_pass(team, MONDAY)
    for job, is_done in zip(jobs, expected.values(), strict=True):
        job.refresh_from_db()
        assert job.state == ("done" if is_done else "superseded")
        assert job.versions.exists() is is_done


def test_the_role_of_a_guest_in_the_hub_makes_a_channel_one_with_guests(team):
    channel = make_channel(team, "basalt")
    assert not channel.may_have_guests(timezone.now())
    user = channel.memberships.get().person.user
    MemberFactory(workspace=team, user=user, role="guest")
    assert channel.may_have_guests(timezone.now())


@pytest.mark.parametrize(
    ("kind", "given", "is_narrowed"),
    [
        ("public", {}, True),
        ("public", {"is_guest": True}, False),
        ("public", {"is_deleted": True}, False),
        ("private", {}, False),
    ],
)
def test_a_guest_of_the_hub_reads_in_slack_what_is_posted_in_a_public_channel(
    team, kind, given, is_narrowed
):
    """Also outside of the channel. A guest in Slack reads only the channels they are in."""
    channel = make_channel(team, "basalt", kind=kind)
    now = timezone.now()
    assert not channel.common_reader(now).is_narrowed
    person = PersonFactory(workspace=team, user=UserFactory(), **given)
    MemberFactory(workspace=team, user=person.user, role="guest")
    assert not channel.may_have_guests(now)
    assert channel.common_reader(now).is_narrowed == is_narrowed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "flowing"),
    [
        ({}, {"basalt", "ember"}),
        (
            {"is_shared": True, "in_workspace_memory": True},
            {"basalt", "cobalt", "dahlia", "ember", "fjord"},
        ),
    ],
    ids=["public", "opted in with all"],
)
def test_no_line_of_strangers_alone_is_remembered_by_the_workspace(team, channel, flowing):
    team.connect("T1", name="x", domain="x", now=MONDAY)
    room = make_channel(team, "aurora", **channel)
    authors = {
        "basalt": {},
        "cobalt": {"is_guest": True},
        "dahlia": {"is_external": True},
        "ember": {"is_placeholder": True, "is_bot": True},
        "fjord": {"is_placeholder": True},
    }
    for minute, (word, author) in enumerate(authors.items(), 10):
        text = f"We decided that {word} will be the name of the release in March."
        say(room, text, MONDAY + timedelta(minutes=minute), **author)
    run_pass(team, LATER)
    assert {word for word in authors if word in long(room).current.content} == set(authors)
    remembered = workspace_memory(room).current.content
    assert "aurora" in remembered
    assert {word for word in authors if word in remembered} == flowing


def test_line_numbers_stay_when_an_author_becomes_a_guest(team):
    """A stored reply refers to lines by their numbers in the request."""
    room = make_channel(team, "aurora")
    theirs, ours = room.messages.order_by("micros")[:2]
    version = make_version(memory=long(room), text="- said by one\n- said by another")
    for line, message in zip(version.lines.order_by("position"), (theirs, ours), strict=True):
        line.sources.set([message])
    job = make_job(memory=workspace_memory(room), inputs=[version])

    def numbered():
        question = RequestBuilder(team).build(job)
        return [line.ref for line in question.request.additions[0].lines], len(question.sources)

    assert numbered() == ([1, 2], 2)
    Person.objects.filter(pk=theirs.author_id).update(is_guest=True)
    assert numbered() == ([2], 2)


@pytest.mark.slow
def test_an_author_from_outside_leaves_with_the_next_merge(team):
    room = make_channel(team, "aurora")
    message = say(room, "We decided that basalt will be the name of the release in March.")
    run_pass(team, LATER)
    assert "basalt" in workspace_memory(room).current.content
    Person.objects.filter(pk=message.author_id).update(is_external=True)
    say(room, "Decided: the cobalt rollout goes to 14 customers.", LATER)
    run_pass(team, LATER + 4 * HOUR)
    remembered = workspace_memory(room).current.content
    assert "aurora" in remembered and "cobalt" in remembered and "basalt" not in remembered
    assert "basalt" in long(room).current.content


@pytest.mark.parametrize("guest", [True, False])
def test_where_a_stranger_speaks_no_line_flows_that_cites_nothing(team, guest):
    room = make_channel(team, "aurora")
    say(room, "hello", is_guest=guest)
    version = make_version(memory=long(room), text="- nobody knows from where")
    job = make_job(memory=workspace_memory(room), inputs=[version])
    assert RequestBuilder(team).build(job).request.is_empty is guest


def test_people_missing_in_an_export_are_no_outsiders(team):
    """Slack's own list is complete, and Slack names the author of every message."""
    room = make_channel(team, "aurora")
    unnamed = PersonFactory(workspace=team, is_placeholder=True)
    nobodys = MessageFactory(channel=room, author=None)
    MessageFactory(channel=room, author=None, is_bot=True)
    assert not Person.objects.from_outside().exists()
    assert not Message.objects.from_outsiders().exists()
    team.connect("T1", name="x", domain="x", now=MONDAY)
    assert Person.objects.from_outside().get() == unnamed
    assert Message.objects.from_outsiders().get() == nobodys


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"person": {"is_guest": True}}, (False, False)),
        ({"person": {"is_external": True}}, (False, False)),
        ({"person": {"is_placeholder": True}}, (False, False)),
        ({"channel": {"is_ext_shared": True}}, (False, False)),
        ({"other": {"is_private": True}}, (True, False)),
    ],
    ids=["a guest comes", "from outside", "in no list of people", "shared", "the other closes"],
)
def test_a_change_in_the_middle_of_a_pass_is_counted(team, change, expected):
    """Strangers are shown neither the workspace's text nor names of channels."""
    channel, second = make_channel(team, "aurora"), make_channel(team, "fjord")
    make_workspace_memory(workspace=team, texts=["- WORKSPACEWORD was decided"])
    MemoryVersion.objects.update(origin=Origin.PERSON)  # rests on nobody's channel
    say(channel, f"see <#{second.slack_id}>")
    job = make_job(memory=short(channel), as_of_us=to_micros(LATER), provisional=True)
    builder = RequestBuilder(team)

    def shown():
        again = Job.objects.with_memory().get(pk=job.pk)
        words = repr(builder.build(again).request)
        return "WORKSPACEWORD" in words, "fjord-room" in words

    assert shown() == (True, True)
    if "person" in change:
        channel.memberships.create(person=PersonFactory(workspace=team, **change["person"]))
    else:
        slack_says(channel if "channel" in change else second, **next(iter(change.values())))
    assert shown() == expected


def test_a_channel_with_changed_members_may_have_guests(team):
    channel = make_channel(team, "aurora")
    PersonFactory(workspace=team, is_guest=True)
    PersonFactory(workspace=team, is_bot=True, is_placeholder=True)
    assert not channel.may_have_guests(timezone.now())
    channel.mark_members_changed(timezone.now())
    assert channel.may_have_guests(timezone.now())
    channel.set_members_known(timezone.now())
    assert not channel.may_have_guests(timezone.now())
    a_day_later = timezone.now() + timedelta(hours=25)
    assert not channel.may_have_guests(a_day_later)
    team.connect("T1", name="", domain="", now=MONDAY)
    channel.refresh_from_db()
    assert channel.may_have_guests(a_day_later)


# -- while a model is thinking


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["closes", "opens", "opts out"])
def test_a_change_while_a_model_thinks(httpserver, settings, team, way):
    """The answer is only for those who may read its inputs."""
    make_channel(team, "aurora")
    channel = make_channel(team, "garnet", kind="public" if way == "closes" else "private")
    if way == "opts out":
        channel_audience.set_opt_in(channel, by=None, on=True)
    model = Metered(httpserver)
    use_model(settings, httpserver, "fake")
    settings.MEMORYHUB_LLM_CONCURRENCY = 1
    changed = []

    def change(user):
        is_merge = "<<added" in user
        is_due = is_merge and "aurora" in user if way != "opens" else True
        if changed or not is_due or "garnet" not in user:
            return
        changed.append(user)
        try:
            current = Channel.objects.get(pk=channel.pk)
            if way == "opts out":
                channel_audience.set_opt_in(current, by=None, on=False)
            else:
                slack_says(current, is_private=way == "closes")
        finally:
            connection.close()

    model.before = change
    now = LATER
    for _ in range(3):
        run_pass(team, now, configured_summariser())
        now += HOUR
    assert changed
    assert "garnet" not in texts(member(team)).replace("garnet-room", "")
    assert "garnet" in texts(insider(channel))
    assert "aurora" in workspace_memory(channel).current.content
    assert "garnet" not in workspace_memory(channel).current.content
