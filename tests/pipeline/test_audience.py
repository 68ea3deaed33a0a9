"""A channel changes its readers: what was learned before stays with those who could read it then.

The changes come as they come from Slack, through the roster; memories come from passes with the
offline summariser, which quotes, so that each channel's word can be looked for.
"""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from memories.models import (
    AuditEvent,
    Channel,
    Generation,
    MemoryVersion,
    Message,
    Note,
    Person,
    Reader,
    Segment,
)
from memories.pipeline import audience, proposals
from memories.pipeline.ask import Asker, MixedAudience
from memories.pipeline.context import build_context
from memories.pipeline.passes import configured_summariser, run_pass
from memories.pipeline.roster import store_channels
from memories.rules.lines import Origin
from memories.rules.memory import MemoryType
from memories.rules.slacktime import to_micros
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
    make_reply,
    make_version,
    make_workspace_memory,
)
from tests.pipeline.current import long, short, workspace_memory
from tests.pipeline.metered import Metered

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
LATER = MONDAY + 3 * HOUR
NEXT_DAY = MONDAY + 24 * HOUR


@pytest.fixture
def team():
    return WorkspaceFactory(settings={"thread_min_messages": 2})


def make_channel(team, word, kind="public", **given):
    """A channel that somebody is in, and in which its word was said on Monday morning."""
    insider = PersonFactory(workspace=team, user=UserFactory())
    channel = ChannelFactory(workspace=team, name=f"{word}-room", kind=kind, **given)
    channel.memberships.create(person=insider)
    channel.members_were_known(timezone.now())
    channel.remember_from(to_micros(MONDAY))
    talk(channel, word)
    return channel


def talk(channel, word, begin=MONDAY):
    for minute in range(6):
        MessageFactory(
            channel=channel,
            author=PersonFactory(workspace=channel.workspace),
            at=begin + timedelta(minutes=minute),
            text=f"We decided that {word} number {minute} ships on Friday {minute + 1} January.",
        )


def slack_says(channel, **what):
    """The channel as a sync finds it now."""
    raw = {"id": channel.slack_id, "name": channel.name, **what}
    kind = "private" if what.get("is_private") else "public"
    store_channels(channel.workspace, [(raw, kind)], known_at=timezone.now(), live=True)
    channel.refresh_from_db()


def member(team):
    """Who reads what is public, and no more."""
    return Reader.of(MemberFactory(workspace=team).user)


def insider(channel):
    return Reader.of(channel.memberships.get().person.user)


def texts(reader):
    versions = MemoryVersion.objects.visible_to(reader).values_list("content", flat=True)
    said = Message.objects.visible_to(reader).values_list("text", flat=True)
    notes = Note.objects.visible_to(reader).values_list("content", flat=True)
    return "\n".join([*versions, *said, *notes])


def context(team, reader, channel=None, now=LATER):
    return build_context(
        team, reader, channel=channel.slack_id if channel else None, with_notes=True, now=now
    ).text


# -- public → private


def test_what_turns_private_leaves_the_workspace_at_once_and_is_made_again_without(team):
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


def test_a_version_from_before_the_channel_came_in_stays(team):
    first = make_channel(team, "aurora")
    run_pass(team, LATER)
    old = workspace_memory(first).current
    second = make_channel(team, "basalt")
    run_pass(team, LATER + HOUR)
    assert workspace_memory(first).current != old
    slack_says(second, is_private=True)
    assert workspace_memory(first).current == old


def test_what_people_wrote_over_it_goes_with_it(team):
    """Nobody can tell whose words theirs are."""
    channel = make_channel(team, "basalt")
    run_pass(team, LATER)
    memory = workspace_memory(channel)
    memory.revise("- the stone one ships", by=None, based_on=memory.current.number)
    slack_says(channel, is_private=True)
    assert workspace_memory(channel).current is None


def test_where_nothing_tells_what_a_version_rests_on_it_goes_too(team):
    channel = make_channel(team, "basalt")
    make_workspace_memory(workspace=team, texts=["- from somewhere"])
    slack_says(channel, is_private=True)
    assert workspace_memory(channel).current is None


def test_gone_from_the_list_is_private_too(team):
    channel = make_channel(team, "basalt")
    run_pass(team, LATER)
    channel.describe({"kind": "private"})
    audience.follow(channel, "public", was_shared=False)
    assert workspace_memory(channel).current is None


def test_a_proposal_made_of_it_is_withdrawn(team):
    channel = make_channel(team, "basalt")
    memory = make_workspace_memory(workspace=team, texts=["- a\n- b"])
    MemoryVersion.objects.update(origin=Origin.PERSON)  # rests on nobody's channel
    generation = Generation.objects.create(
        memory=memory, base=memory.current, as_of_us=0, input_key="p", state="proposed"
    )
    generation.take_inputs([make_channel_memory(channel=channel, texts=["- basalt"]).current])
    assert proposals.of(memory) == generation
    slack_says(channel, is_private=True)
    assert proposals.of(memory) is None
    generation.refresh_from_db()
    assert generation.state == "superseded"
    assert memory.current_id  # which rested on nothing of it


# -- private → public


def test_what_was_learned_in_private_is_not_published(team):
    channel = make_channel(team, "cobalt", kind="private")
    root = channel.messages.order_by("micros").first()
    for minute in range(4):
        make_reply(root=root, at=MONDAY + timedelta(minutes=10 + minute), text=f"cobalt {minute}")
    NoteFactory(workspace=team, channel=channel, content="cobalt is a colour")
    run_pass(team, LATER)
    assert channel.memories.filter(scope="thread", current__isnull=False).exists()
    slack_says(channel, is_private=False)
    assert channel.is_public
    reader = member(team)
    assert "cobalt" not in texts(reader).replace("cobalt-room", "")
    assert "cobalt" not in context(team, reader, channel).replace("cobalt-room", "")
    run_pass(team, LATER + HOUR)
    assert "cobalt" not in texts(reader)
    assert not MemoryVersion.objects.filter(memory__scope="workspace").exists()
    for what in (MemoryVersion, Message, Note, Segment, Generation):
        assert not what.objects.visible_to(reader).exists(), what
        assert what.objects.visible_to(insider(channel)).count() == what.objects.count(), what
    assert "cobalt is a colour" in context(team, insider(channel), channel)


def test_what_is_said_in_public_is_public(team):
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    slack_says(channel, is_private=False)
    talk(channel, "dahlia", NEXT_DAY)
    run_pass(team, NEXT_DAY + 3 * HOUR)
    reader = member(team)
    assert "dahlia" in short(channel).current.content
    assert "dahlia" in long(channel).current.content
    assert "dahlia" in workspace_memory(channel).current.content
    assert "dahlia" in context(team, reader, now=NEXT_DAY + 3 * HOUR)
    assert "cobalt" not in texts(reader)
    assert "cobalt" in texts(insider(channel))


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


def test_a_restored_text_stays_with_those_who_may_read_it(team):
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    slack_says(channel, is_private=False)
    memory = long(channel)
    old = memory.versions.visible_to(insider(channel)).get()
    made = memory.restore(old, by=None, based_on=0)
    assert made.audience == "members"
    assert memory.current is None
    assert "cobalt" not in texts(member(team))


def test_people_may_write_where_the_current_text_is_withheld(team):
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    slack_says(channel, is_private=False)
    version = long(channel).revise("- a fresh start", by=None, based_on=0)
    assert (version.number, version.audience) == (2, "scope")
    assert long(channel).current == version


def test_back_and_forth_publishes_nothing(team):
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    for private in (False, True, False, True, False):
        slack_says(channel, is_private=private)
        run_pass(team, LATER + HOUR)
    assert "cobalt" not in texts(member(team))


def test_what_was_public_before_it_closed_is_public_again(team):
    """As when Slack did not list it for a while; only what was learned meanwhile is withheld."""
    channel = make_channel(team, "aurora")
    run_pass(team, LATER)
    team.has_been_listed(MONDAY + 4 * HOUR)
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


def test_an_edit_of_an_old_message_publishes_nothing(team):
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    slack_says(channel, is_private=False)
    channel.segments.update(stale=True)
    run_pass(team, LATER + HOUR)
    assert short(channel).versions.get().revision or short(channel).head
    assert "cobalt" not in texts(member(team))


def test_a_held_line_of_a_private_text_goes_into_no_public_one(team):
    """All that was said privately in its segment is gone, but a pinned line quotes it."""
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


def test_opting_in_publishes_the_long_term_text_and_no_more(team):
    secret = make_channel(team, "ember", kind="private")
    make_channel(team, "aurora")
    run_pass(team, LATER)
    by = UserFactory()
    assert audience.opt_in(secret, by=by, on=True)
    assert not audience.opt_in(secret, by=by, on=True)
    run_pass(team, LATER + HOUR)
    reader = member(team)
    assert "ember" in workspace_memory(secret).current.content
    seen = MemoryVersion.objects.visible_to(reader).filter(memory__channel=secret)
    assert not seen.exists()
    assert not Message.objects.visible_to(reader).filter(channel=secret).exists()
    told = context(team, reader)
    assert "(Includes #ember-room, private, by opt-in.)\n" in told
    events = AuditEvent.objects.filter(action__startswith="channel_opt")
    assert [(e.action, e.actor, e.subject) for e in events] == [
        ("channel_opt_in", by.username, f"channel {secret.pk}")
    ]


def test_opting_out_takes_it_back(team):
    secret = make_channel(team, "ember", kind="private")
    make_channel(team, "aurora")
    audience.opt_in(secret, by=None, on=True)
    run_pass(team, LATER)
    assert "ember" in workspace_memory(secret).current.content
    assert audience.opt_in(secret, by=None, on=False)
    reader = member(team)
    assert "ember" not in texts(reader) and "ember" not in context(team, reader)
    run_pass(team, LATER + HOUR)
    assert "aurora" in workspace_memory(secret).current.content
    assert "ember" not in texts(reader)
    # And once more: the same text is owed again.
    audience.opt_in(secret, by=None, on=True)
    run_pass(team, LATER + 2 * HOUR)
    assert "ember" in workspace_memory(secret).current.content


def test_its_short_term_text_stays_in_the_channel(team):
    team.change_settings({"workspace_short_term": True})
    secret = make_channel(team, "ember", kind="private")
    make_channel(team, "aurora")
    audience.opt_in(secret, by=None, on=True)
    run_pass(team, LATER)
    assert "aurora" in workspace_memory(secret, MemoryType.SHORT_TERM).current.content
    assert "ember" not in workspace_memory(secret, MemoryType.SHORT_TERM).current.content


def test_the_word_ends_when_the_channel_is_another(team):
    secret = make_channel(team, "ember", kind="private")
    audience.opt_in(secret, by=None, on=True)
    slack_says(secret, is_private=False)
    assert not secret.in_workspace_memory
    slack_says(secret, is_private=True)
    run_pass(team, LATER)
    assert workspace_memory(secret).head == 0


@pytest.mark.parametrize("kind", ["public", "im", "mpim"])
def test_nothing_to_opt_in(team, kind):
    channel = ChannelFactory(workspace=team, kind=kind)
    assert not audience.opt_in(channel, by=None, on=True)
    channel.refresh_from_db()
    assert not channel.in_workspace_memory and not AuditEvent.objects.exists()


# -- shared with another organisation


def test_a_shared_channel_does_not_flow_unless_opted_in(team):
    shared = make_channel(team, "fjord", is_shared=True)
    run_pass(team, LATER)
    assert "fjord" in long(shared).current.content
    assert workspace_memory(shared).head == 0
    assert audience.opt_in(shared, by=None, on=True)
    run_pass(team, LATER + HOUR)
    assert "fjord" in workspace_memory(shared).current.content


def test_sharing_withdraws_and_the_end_of_sharing_brings_back(team):
    channel = make_channel(team, "fjord")
    run_pass(team, LATER)
    slack_says(channel, is_ext_shared=True)
    assert workspace_memory(channel).current is None
    run_pass(team, LATER + HOUR)
    assert workspace_memory(channel).current is None
    slack_says(channel, is_ext_shared=False)
    run_pass(team, LATER + 2 * HOUR)
    assert "fjord" in workspace_memory(channel).current.content


def test_strangers_are_shown_no_text_of_the_workspace(team):
    """Prompts of a shared channel hold neither the workspace's memory nor names of channels."""
    run_pass(make_channel(team, "aurora").workspace, LATER)
    shared = make_channel(team, "fjord", is_shared=True)
    other = team.channels.get(name="aurora-room")
    MessageFactory(channel=shared, at=MONDAY + HOUR, text=f"see <#{other.slack_id}>")
    memory = short(shared)
    generation = Generation.objects.create(
        memory=memory, as_of_us=to_micros(LATER), input_key="x", provisional=True
    )
    question = Asker(team).question(generation)
    assert not question.request.references
    assert "aurora" not in repr(question.request)


def test_a_reference_that_not_all_may_read_is_refused(team):
    secret, open_ = make_channel(team, "ember", kind="private"), make_channel(team, "aurora")
    make_channel_memory(channel=secret, texts=["- ember"])
    with pytest.raises(MixedAudience):
        Asker(team)._refer("memory", long(secret), long(open_))
    make_workspace_memory(workspace=team)
    assert Asker(team)._refer("memory", workspace_memory(open_), long(secret))
    ChannelFactory(workspace=team, members=[PersonFactory(workspace=team, is_guest=True)])
    Channel.objects.filter(pk=open_.pk).update(members_known_at=None)
    with pytest.raises(MixedAudience):
        Asker(team)._refer("memory", workspace_memory(open_), long(open_))


@pytest.mark.parametrize("output", ["of the workspace", "of another channel"])
@pytest.mark.parametrize("audience", ["scope", "members", "nobody"])
@pytest.mark.parametrize("kind", ["public", "private"])
def test_what_not_all_may_read_is_merged_with_nothing(team, kind, audience, output):
    """Whoever owed it: the rows are looked at once more before anything is asked."""
    source = make_channel(team, "ember", kind=kind)
    version = make_version(memory=long(source), text="- ember")
    MemoryVersion.objects.update(audience=audience)
    to_workspace = output == "of the workspace"
    memory = workspace_memory(source) if to_workspace else long(make_channel(team, "aurora"))
    generation = Generation.objects.create(memory=memory, as_of_us=0, input_key="x")
    generation.take_inputs([version])
    run_pass(team, MONDAY)
    generation.refresh_from_db()
    may = (kind, audience, to_workspace) == ("public", "scope", True)
    assert generation.state == ("done" if may else "superseded")
    assert generation.versions.exists() is may


@pytest.mark.parametrize(
    ("author", "channel", "flows"),
    [
        ({}, {}, True),
        ({"is_guest": True}, {}, False),
        ({"is_external": True}, {}, False),
        ({"is_placeholder": True}, {}, False),
        ({"is_placeholder": True, "is_bot": True}, {}, True),
        ({"is_external": True}, {"is_shared": True, "in_workspace_memory": True}, True),
    ],
    ids=["a member", "a guest", "from outside", "in no list", "a bot", "opted in with all"],
)
def test_no_line_of_strangers_alone_is_remembered_by_the_workspace(team, author, channel, flows):
    team.connect("T1", name="x", domain="x", now=MONDAY)
    room = make_channel(team, "aurora", **channel)
    MessageFactory(
        channel=room,
        author=PersonFactory(workspace=team, **author),
        at=MONDAY + timedelta(minutes=10),
        text="We decided that basalt will be the name of the release in March.",
    )
    run_pass(team, LATER)
    assert "basalt" in long(room).current.content
    told = workspace_memory(room).current.content
    assert "aurora" in told
    assert ("basalt" in told) is flows


def test_who_becomes_a_guest_meanwhile_leaves_the_other_lines_their_numbers(team):
    """A reply that was kept names lines by the numbers that they had when it was asked for."""
    room = make_channel(team, "aurora")
    theirs, ours = room.messages.order_by("micros")[:2]
    version = make_version(memory=long(room), text="- said by one\n- said by another")
    for line, message in zip(version.lines.order_by("position"), (theirs, ours), strict=True):
        line.sources.set([message])
    generation = Generation.objects.create(memory=workspace_memory(room), as_of_us=0, input_key="x")
    generation.take_inputs([version])

    def numbered():
        question = Asker(team).question(generation)
        return [line.ref for line in question.request.additions[0].lines], len(question.cites)

    assert numbered() == ([1, 2], 2)
    Person.objects.filter(pk=theirs.author_id).update(is_guest=True)
    assert numbered() == ([2], 2)


def test_who_is_unnamed_in_an_export_is_no_stranger(team):
    """It may leave out anybody; Slack's own list does not."""
    unnamed = PersonFactory(workspace=team, is_placeholder=True)
    assert not Person.objects.from_outside().exists()
    team.connect("T1", name="x", domain="x", now=MONDAY)
    assert Person.objects.from_outside().get() == unnamed


def test_who_turns_out_to_be_a_stranger_is_out_of_it_with_the_next_merge(team):
    room = make_channel(team, "aurora")
    author = PersonFactory(workspace=team)
    MessageFactory(
        channel=room,
        author=author,
        at=MONDAY + timedelta(minutes=10),
        text="We decided that basalt will be the name of the release in March.",
    )
    run_pass(team, LATER)
    assert "basalt" in workspace_memory(room).current.content
    Person.objects.filter(pk=author.pk).update(is_external=True)
    talk(room, "cobalt", LATER)
    run_pass(team, LATER + 4 * HOUR)
    told = workspace_memory(room).current.content
    assert "aurora" in told and "cobalt" in told and "basalt" not in told
    assert "basalt" in long(room).current.content


@pytest.mark.parametrize("guest", [True, False])
def test_where_a_stranger_speaks_no_line_flows_that_cites_nothing(team, guest):
    room = make_channel(team, "aurora")
    MessageFactory(
        channel=room, author=PersonFactory(workspace=team, is_guest=guest), at=MONDAY + HOUR
    )
    generation = Generation.objects.create(memory=workspace_memory(room), as_of_us=0, input_key="x")
    generation.take_inputs([make_version(memory=long(room), text="- nobody knows from where")])
    question = Asker(team).question(generation)
    assert question.request.is_empty is guest


def test_words_of_nobody_are_a_strangers(team):
    """In an export an author may be missing; Slack itself names everybody's."""
    room = make_channel(team, "aurora")
    MessageFactory(channel=room, author=None)
    bots = MessageFactory(channel=room, author=None, is_bot=True)
    assert not Message.objects.said_from_outside().exists()
    team.connect("T1", name="x", domain="x", now=MONDAY)
    assert Message.objects.said_from_outside().count() == 1
    assert not Message.objects.filter(pk=bots.pk).said_from_outside().exists()


@pytest.mark.parametrize(
    "somebody",
    [{"is_guest": True}, {"is_external": True}, {"is_placeholder": True}],
    ids=["a guest", "from outside", "in no list of people"],
)
def test_who_comes_in_the_middle_of_a_pass_is_counted(team, somebody):
    """The workspace's text and names of channels are left out from then on."""
    channel, other = make_channel(team, "aurora"), make_channel(team, "fjord")
    make_workspace_memory(workspace=team, texts=["- WORKSPACEWORD was decided"])
    MessageFactory(channel=channel, at=MONDAY + HOUR, text=f"see <#{other.slack_id}>")
    generation = Generation.objects.create(
        memory=short(channel), as_of_us=to_micros(LATER), input_key="x", provisional=True
    )
    asker = Asker(team)

    def told():
        again = Generation.objects.with_memory().get(pk=generation.pk)
        words = repr(asker.question(again).request)
        return "WORKSPACEWORD" in words, "fjord-room" in words

    assert told() == (True, True)
    channel.memberships.create(person=PersonFactory(workspace=team, **somebody))
    assert told() == (False, False)


def test_a_name_that_turns_private_in_the_middle_of_a_pass_is_not_said(team):
    channel, other = make_channel(team, "aurora"), make_channel(team, "fjord")
    MessageFactory(channel=channel, at=MONDAY + HOUR, text=f"see <#{other.slack_id}>")
    generation = Generation.objects.create(
        memory=short(channel), as_of_us=to_micros(LATER), input_key="x", provisional=True
    )
    asker = Asker(team)
    assert "fjord-room" in repr(asker.question(generation).request)
    slack_says(other, is_private=True)
    assert "fjord-room" not in repr(asker.question(generation).request)


def test_where_somebody_came_or_went_since_a_guest_anywhere_counts(team):
    channel = make_channel(team, "aurora")
    PersonFactory(workspace=team, is_guest=True)
    PersonFactory(workspace=team, is_bot=True, is_placeholder=True)
    assert not channel.has_guests()
    channel.read_members_again(timezone.now())
    assert channel.has_guests()
    channel.members_were_known(timezone.now())
    assert not channel.has_guests()


# -- while a model is thinking


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["closes", "opens", "opts out"])
def test_a_change_while_a_model_thinks(httpserver, settings, team, way):
    """Whatever the answer holds, it is for those who may read what it was made of."""
    make_channel(team, "aurora")
    channel = make_channel(team, "garnet", kind="public" if way == "closes" else "private")
    if way == "opts out":
        audience.opt_in(channel, by=None, on=True)
    model = Metered(httpserver)
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = model.url, "none"
    settings.MEMORYHUB_MODEL, settings.MEMORYHUB_LLM_CONCURRENCY = "fake", 1
    changed = []

    def change(user):
        is_merge = "<<added" in user
        wanted = is_merge and "aurora" in user if way != "opens" else True
        if changed or not wanted or "garnet" not in user:
            return
        changed.append(user)
        try:
            found = Channel.objects.get(pk=channel.pk)
            if way == "opts out":
                audience.opt_in(found, by=None, on=False)
            else:
                slack_says(found, is_private=way == "closes")
        finally:
            connection.close()

    model.before = change
    now = LATER
    for _ in range(4):
        run_pass(team, now, configured_summariser())
        now += HOUR
    assert changed
    assert "garnet" not in texts(member(team)).replace("garnet-room", "")
    assert "garnet" in texts(insider(channel))
    assert "aurora" in workspace_memory(channel).current.content
    assert "garnet" not in workspace_memory(channel).current.content


def test_a_generation_tells_nothing_of_private_days(team):
    """A fault may quote what was asked."""
    channel = make_channel(team, "cobalt", kind="private")
    run_pass(team, LATER)
    assert Generation.objects.count() >= 2
    slack_says(channel, is_private=False)
    reader = member(team)
    rows = Generation.objects.saying_who_reads(reader)
    assert not [row for row in rows if row.is_readable]
    mine = Generation.objects.saying_who_reads(insider(channel))
    assert all(row.is_readable for row in mine)
