"""Text that is deleted in Slack leaves every derived text at once and for good.

Deletions and edits come through `store_messages`, as Slack sends them. Memories come from passes
with the offline summariser, which quotes, or are written directly.
"""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memories.models import (
    Channel,
    Draft,
    EarlierWording,
    Job,
    Line,
    Memory,
    MemoryVersion,
    Message,
    NewVersion,
    Note,
    NoteVersion,
    Proposal,
    QuarantinedLine,
    Reader,
    Segment,
    SlackEvent,
)
from memories.models.memory.memories import StaleBase
from memories.pipeline.context.build import build_context
from memories.pipeline.generate import followups
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.requests import RequestBuilder
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.notes.keeping import keep_message
from memories.pipeline.redaction import merges, redactor
from memories.pipeline.redaction.forget import forget_channel, forget_person
from memories.pipeline.redaction.redactor import redact_messages
from memories.pipeline.redaction.removed import RemovedMessage
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line as LineValue
from memories.rules.memory.lines import Origin
from memories.rules.redaction.shingles import REDACTED
from memories.rules.summariser import Reply
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    make_channel_memory,
    make_job,
    make_reply,
    make_segment,
    make_thread_memory,
    make_version,
    make_workspace_memory,
    ts_at,
)
from tests.pipeline.current import long, short, workspace_memory

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("redaction reads JSON and text by SQL")]

HOUR = timedelta(hours=1)
LATER = MONDAY + 3 * HOUR
SECRET = "We decided that the copper gate of warehouse nine ships on Friday the ninth"
BESIDE = "It is agreed that the harbour office orders eleven green lamps by the end of March"


@pytest.fixture
def channel():
    channel = ChannelFactory(workspace__settings={"thread_min_messages": 2}, name="gates")
    channel.remember_from(to_micros(MONDAY))
    return channel


def delete(*messages):
    """Delete messages as Slack reports it."""
    for channel in {message.channel for message in messages}:
        store_messages(
            channel,
            [
                {"type": "message", "subtype": "message_deleted", "ts": "1790000000.000000",
                 "deleted_ts": message.ts}
                for message in messages if message.channel == channel
            ],
            MONDAY + 400 * 24 * HOUR,
        )  # fmt: skip


def edit(message, text):
    raw = {"type": "message", "ts": message.ts, "text": text, "user": message.author.slack_id,
           "edited": {"ts": f"{message.ts[:-1]}9", "user": message.author.slack_id}}  # fmt: skip
    store_messages(message.channel, [raw], MONDAY + 400 * 24 * HOUR)


def say(channel, text, minutes=0, **given):
    return MessageFactory(
        channel=channel, at=MONDAY + timedelta(minutes=minutes), text=text, **given
    )


def everything():
    """Every text that anybody could still read, or a model."""
    versions = MemoryVersion.objects.values_list("content", "put_back", "kept")
    texts = [part for content, restored, kept in versions for part in (content, *restored, *kept)]
    texts += Line.objects.values_list("text", flat=True)
    texts += [json.dumps(reply, ensure_ascii=False)
              for reply in Job.objects.values_list("reply", flat=True)]  # fmt: skip
    texts += Job.objects.values_list("fault_text", flat=True)
    texts += QuarantinedLine.objects.values_list("text", flat=True)
    for model in (Note, NoteVersion):
        rows = model.objects.values_list("title", "content", "tags")
        texts += [part for title, content, tags in rows for part in (title, content, *tags)]
    texts += [part for row in Message.objects.values_list("text", "raw") for part in row]
    texts += SlackEvent.objects.values_list("body", flat=True)
    texts += Draft.objects.values_list("text", flat=True)
    for words in Proposal.objects.values_list("line_text", "text", "reason", "source_text"):
        texts += words
    return "\n".join(texts)


class TestThroughPasses:
    @pytest.mark.slow
    def test_a_deleted_message_is_redacted_and_its_texts_rebuilt(self, channel):
        deleted = say(channel, SECRET)
        say(channel, BESIDE, 1)
        run_pass(channel.workspace, LATER)
        for memory in (short(channel), long(channel), workspace_memory(channel)):
            assert "copper gate" in memory.current.content
        delete(deleted)
        assert "copper" not in everything()
        assert "eleven green lamps" in short(channel).current.content
        run_pass(channel.workspace, LATER + HOUR)
        for memory in (short(channel), long(channel), workspace_memory(channel)):
            assert "eleven green lamps" in memory.current.content
            assert REDACTED not in memory.current.content
        assert [version.number for version in short(channel).versions.all()] == [1]
        assert "copper" not in everything()

    @pytest.mark.slow
    def test_a_fully_deleted_segment_leaves_no_text(self, channel):
        deleted = [say(channel, SECRET), say(channel, f"{SECRET}, or on the tenth of May", 1)]
        run_pass(channel.workspace, LATER)
        say(channel, BESIDE, 400)
        run_pass(channel.workspace, LATER + 24 * HOUR)
        delete(*deleted)
        assert "copper" not in everything()
        report = run_pass(channel.workspace, LATER + 25 * HOUR)
        assert not report.errors
        first, second = Segment.objects.in_order()
        assert (first.outcome, second.outcome) == ("skipped", "remembered")
        assert short(channel).versions.get(number=1).content == REDACTED
        assert short(channel).current.number == 2
        for memory in (long(channel), workspace_memory(channel)):
            assert "eleven green lamps" in memory.current.content
            assert REDACTED not in memory.current.content

    @pytest.mark.slow
    def test_no_text_is_left_after_all_messages_are_deleted(self, channel):
        deleted = say(channel, SECRET)
        run_pass(channel.workspace, LATER)
        delete(deleted)
        run_pass(channel.workspace, LATER + HOUR)
        for memory in (short(channel), long(channel), workspace_memory(channel)):
            assert memory.current is None
        assert not Job.objects.unfinished().exists()
        say(channel, BESIDE, 400)
        run_pass(channel.workspace, LATER + 24 * HOUR)
        for memory in (short(channel), long(channel), workspace_memory(channel)):
            assert "eleven green lamps" in memory.current.content

    @pytest.mark.slow
    def test_a_deleted_thread_leaves_no_text(self, channel):
        root = say(channel, "Shall we?")
        deleted = [
            make_reply(root=root, at=MONDAY + timedelta(minutes=m), text=f"{SECRET}, part {m}")
            for m in (1, 2, 3)
        ]
        run_pass(channel.workspace, LATER)
        memory = Memory.objects.of_thread(channel, root.ts)
        assert "copper gate" in memory.current.content
        delete(root, *deleted)
        run_pass(channel.workspace, LATER + HOUR)
        memory.refresh_from_db()
        assert memory.current is None
        assert "copper" not in everything()

    @pytest.mark.slow
    def test_an_old_export_does_not_bring_it_back(self, channel):
        deleted = say(channel, SECRET)
        say(channel, BESIDE, 1)
        run_pass(channel.workspace, LATER)
        delete(deleted)
        edit(deleted, f"{SECRET} again")
        raw = {"type": "message", "ts": deleted.ts, "text": SECRET, "user": "U1"}
        store_messages(channel, [raw], MONDAY + 400 * 24 * HOUR)
        run_pass(channel.workspace, LATER + HOUR)
        assert "copper" not in everything()

    @pytest.mark.slow
    def test_an_edit_redacts_the_removed_words(self, channel):
        message = say(channel, f"{SECRET}. {BESIDE}")
        run_pass(channel.workspace, LATER)
        text = short(channel).current.content
        assert "copper" in text
        edit(message, BESIDE)
        assert "copper gate" not in everything()
        assert "eleven green lamps" in everything()
        run_pass(channel.workspace, LATER + HOUR)
        assert "eleven green lamps" in workspace_memory(channel).current.content
        assert REDACTED not in workspace_memory(channel).current.content


class TestOtherPlaces:
    def test_channels_that_read_the_workspace_memory_are_redacted(self, channel):
        deleted = say(channel, SECRET)
        second = ChannelFactory(workspace=channel.workspace)
        memory = make_workspace_memory(workspace=channel.workspace, texts=[f"- so: {SECRET}"])
        there = make_channel_memory(channel=second, texts=[f"- as they say, {SECRET}", "- fine"])
        elsewhere = make_channel_memory(channel=ChannelFactory(), texts=[f"- {SECRET}"])
        delete(deleted)
        assert memory.versions.get().content == f"- so: {REDACTED}"
        assert there.versions.get(number=1).content == f"- as they say, {REDACTED}"
        assert SECRET in elsewhere.versions.get().content  # of another workspace

    def test_old_withheld_and_edited_versions_lose_it_too(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}", f"- well, {SECRET}"])
        memory.versions.filter(number=1).update(audience="nobody", kept=[f"- {SECRET}"])
        person = UserFactory()
        version = memory.revise(f"Mine:\n\n- {SECRET}\n- fine", by=person, based_on=2)
        memory.pin(1, by=person, based_on=3)
        delete(deleted)
        old = memory.versions.get(number=1)
        assert (old.content, old.kept, old.revision) == (REDACTED, [f"- {REDACTED}"], 1)
        version.refresh_from_db()
        assert version.content == f"Mine:\n\n- {REDACTED}\n- fine"
        assert [line.text for line in version.line_values()] == ["Mine:", "- fine"]
        assert [line.text for line in version.protected_lines()] == ["Mine:", "- fine"]

    def test_a_line_that_cites_the_message_is_redacted_as_a_whole(self, channel):
        deleted, stays = say(channel, SECRET), say(channel, BESIDE, 1)
        memory = make_channel_memory(channel=channel, texts=["- nothing"])
        make_version(memory=memory, text="- the gate, in other words", sources=[deleted])
        make_version(memory=memory, text="- the lamps, in other words", sources=[stays])
        delete(deleted)
        assert [v.content for v in memory.versions.order_by("number")] == [
            "- nothing", REDACTED, "- the lamps, in other words",
        ]  # fmt: skip
        line = Line.objects.get(redacted=True)
        assert line.text == f"- {REDACTED}"

    def test_merged_lines_without_a_source_are_redacted(self, channel):
        """This applies to the channel's text and then the workspace's. Earlier lines stay."""
        deleted, stays = say(channel, SECRET), say(channel, BESIDE, 300)
        texts = [
            make_version(
                memory=short(channel), text="- so", sources=[m], segment=make_segment(messages=[m])
            )
            for m in (stays, deleted)
        ]
        memories = [long(channel), workspace_memory(channel)]
        texts_read = "- old\n- the gate leaves soon", "- old\n- the gate leaves soon\n- new"
        for memory in memories:
            make_version(memory=memory, text="- old")
            read = texts[1:]
            for text in texts_read:
                row = make_job(memory=memory, inputs=read, state="done", reply={"text": text})
                version = make_version(memory=memory, text=text, job=row)
                version.lines.filter(text="- old").update(since=1)
                version.lines.filter(text__contains="gate").update(since=2)
                read = texts[:1]
            texts = list(memory.versions.order_by("number"))
        MemoryVersion.objects.update(merged=True)
        delete(deleted)
        for memory in memories:
            contents = [v.content for v in memory.versions.order_by("number")]
            assert contents == [
                "- old",
                f"- old\n- {REDACTED}",
                f"- old\n- {REDACTED}\n- {REDACTED}",
            ]
        assert not Job.objects.filter(reply__isnull=False).exists()
        # The possible inputs of the removed lines are merged again.
        assert short(channel).versions.get(number=1).merged is False

    def test_thread_lines_without_a_source_are_redacted(self, channel):
        root = say(channel, "Shall we?")
        replies = [make_reply(root=root, at=MONDAY + n * HOUR, text=SECRET) for n in (1, 2)]
        segments = [make_segment(messages=[reply], thread_ts=root.ts) for reply in replies]
        memory = Memory.objects.of_thread(channel, root.ts)
        make_version(memory=memory, text="- in other words", segment=segments[1])
        unrelated = make_thread_memory(channel=channel, thread_ts=ts_at(MONDAY - HOUR))
        delete(replies[0])
        assert memory.versions.get().content == REDACTED
        assert REDACTED not in unrelated.versions.get().content

    def test_a_text_of_several_segments_is_redacted_after_history_is_on_again(self, channel):
        """While history was off, one text was of all segments. It names the last one."""
        before, deleted, stays = (
            say(channel, "Hello"),
            say(channel, SECRET, 1),
            say(channel, "x", 2),
        )
        ended, _, last = (
            make_segment(messages=[message], reason="history_off")
            for message in (before, deleted, stays)
        )
        make_version(memory=short(channel), text="- they greet", segment=ended)
        text = make_version(memory=short(channel), text="- the gate leaves soon", segment=last)
        memory = long(channel)
        make_version(memory=memory, text="- old")
        job = make_job(memory=memory, inputs=[text], state="done")
        merged = make_version(memory=memory, text="- old\n- the gate leaves soon", job=job)
        merged.lines.filter(text="- old").update(since=1)
        delete(deleted)
        texts = MemoryVersion.objects.order_by("number").values_list("content", flat=True)
        assert list(texts.filter(memory=short(channel))) == ["- they greet", REDACTED]
        assert list(texts.filter(memory=memory)) == ["- old", f"- old\n- {REDACTED}"]

    def test_a_line_without_sources_with_the_same_words_is_redacted(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(
            channel=channel, texts=["- Friday the ninth: the copper gate ships\n- fine"]
        )
        delete(deleted)
        assert memory.versions.get().content == f"- {REDACTED}\n- fine"

    def test_words_of_another_message_stay(self, channel):
        deleted, stays = say(channel, SECRET), say(channel, SECRET, 1)
        memory = make_channel_memory(channel=channel, texts=["- nothing"])
        make_version(memory=memory, text=f"- {SECRET}", sources=[stays])
        delete(deleted)
        assert memory.versions.get(number=2).content == f"- {SECRET}"
        delete(stays)
        assert memory.versions.get(number=2).content == REDACTED

    def test_words_copied_into_another_channel_are_redacted(self, channel):
        deleted, edited = say(channel, SECRET), say(channel, BESIDE, 1)
        second = ChannelFactory(workspace=channel.workspace)
        memory = make_channel_memory(channel=second, texts=[f"- {SECRET}", f"- {BESIDE}"])
        row = make_job(memory=memory, state="done", reply={"text": f"- {SECRET}"})
        delete(deleted)
        edit(edited, "never mind")
        texts = memory.versions.order_by("number").values_list("content", flat=True)
        assert list(texts) == [
            REDACTED,
            f"- {BESIDE}",
        ]  # an edit is looked for where a model had it
        row.refresh_from_db()
        assert row.reply is None

    def test_a_redacted_note_explains_the_mark(self, channel):
        deleted = say(channel, SECRET)
        note = NoteFactory(
            workspace=channel.workspace, content=f"Remember: {SECRET}!", tags=["gates", SECRET]
        )
        unrelated = NoteFactory(workspace=channel.workspace, content="Remember the milk")
        delete(deleted)
        note.refresh_from_db()
        assert note.tags == ["gates"]
        assert note.content == (
            f"Remember: {REDACTED}!\n\n[…] replaces words of a deleted message."
        )
        unrelated.refresh_from_db()
        assert unrelated.content == "Remember the milk"

    def test_a_note_loses_the_lines_that_repeat_its_short_source(self, channel):
        deleted, stays = say(channel, "Code 4711"), say(channel, "Code 4712", 1)
        note, another = (
            Note.objects.write(channel.workspace, m.text, channel=channel, author=None, source=m)
            for m in (deleted, stays)
        )
        note.rewrite("Gate codes:\nthe code: 4711\nAsk at the harbour office")
        delete(deleted)
        note.refresh_from_db()
        another.refresh_from_db()
        assert note.content.startswith(f"Gate codes:\n{REDACTED}\nAsk at the harbour office")
        assert (another.content, another.title) == (stays.text, stays.text)
        assert "4711" not in everything()

    def test_a_short_text_that_was_edited_away_leaves_what_was_made_from_it(self, channel):
        message = say(channel, "gate code is 4711")
        note = Note.objects.write(
            channel.workspace, message.text, channel=channel, author=None, source=message
        )
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        line = QuarantinedLine.objects.create(
            memory=memory, text="the gate code is 4711!", rule="link"
        )
        line.sources.add(message)
        edit(message, "never mind")
        note.refresh_from_db()
        line.refresh_from_db()
        assert note.content.startswith(REDACTED) and note.title == REDACTED
        assert line.text == f"the {REDACTED}!"

    def test_a_short_text_that_was_edited_away_leaves_what_waits_for_approval(self, channel):
        message, stays = say(channel, "gate code is 4711"), say(channel, BESIDE, 1)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        propose = partial(Proposal.objects.propose, memory.current, None, note_type="pattern")
        propose(message.text, sources=[message])
        beside = propose(stays.text, sources=[stays])
        jobs = [
            make_job(
                memory=memory, state="proposed", reply={"text": m.text}, reply_sources=[[m.pk]]
            )
            for m in (message, stays)
        ]
        edit(message, "never mind")
        assert list(Proposal.objects.all()) == [beside]
        for job in jobs:
            job.refresh_from_db()
        assert [(job.state, job.reply) for job in jobs] == [
            ("superseded", None), ("proposed", {"text": stays.text}),
        ]  # fmt: skip
        assert "4711" not in everything()

    def test_a_dropped_operation_with_the_words_of_a_short_message(self, channel):
        deleted = say(channel, "Launch moved to 5 May")
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        dropped = ["kept_line: Launch moved to 5 May", "kept_line: The lamps are green"]
        dropped.append("kept_line: 5 May")
        memory.versions.update(dropped=dropped)
        delete(deleted)
        assert memory.versions.get().dropped == [REDACTED, dropped[1], REDACTED]

    def test_a_dropped_operation_with_the_text_of_a_redacted_line(self, channel):
        """The second text is of a line that the merge replaced. Only the version before has it."""
        deleted = say(channel, "Moved, see you on the fifth")
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        make_version(
            memory=memory, text="- Quillon starts in May\n- The pumps stop", sources=[deleted]
        )
        version = make_version(memory=memory, text="- The pumps stop", sources=[deleted])
        dropped = [
            "kept_line: The lamps are green The pumps stop",
            "unknown_line: Quillon starts in May",
            "older_news: Quillon starts: in May",
            "kept_line: The lamps are green",
        ]
        memory.versions.filter(pk=version.pk).update(dropped=dropped)
        make_version(memory=memory, text="- green")
        memory.versions.filter(number=4).update(dropped=dropped[1:])
        delete(deleted)
        assert memory.versions.get(number=3).dropped == [REDACTED] * 3 + dropped[3:]
        assert memory.versions.get(number=4).dropped == [REDACTED] * 2 + dropped[3:]

    def test_a_dropped_operation_with_the_text_of_a_line_of_another_memory(self, channel):
        """A merge that drops an operation names a line of a text that it read."""
        deleted = say(channel, "Moved, see you on the fifth")
        line = "Quillon starts in May"
        make_version(memory=short(channel), text=f"- {line}", sources=[deleted])
        dropped = [f"older_news: {line}", "older_news: The lamps are green"]
        for memory in (long(channel), workspace_memory(channel)):
            version = make_version(memory=memory, text="- fine")
            MemoryVersion.objects.filter(pk=version.pk).update(dropped=dropped)
        delete(deleted)
        for memory in (long(channel), workspace_memory(channel)):
            assert memory.versions.get().dropped == [REDACTED, dropped[1]]

    def test_a_line_of_a_deleted_and_an_edited_message_leaves_dropped_operations(self, channel):
        deleted, edited = say(channel, SECRET), say(channel, "gate code is 4711", 1)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        make_version(memory=memory, text="- Quillon starts in May", sources=[deleted, edited])
        make_version(memory=memory, text="- green")
        memory.versions.filter(number=3).update(dropped=["older_news: Quillon starts in May"])
        edit_of = replace(RemovedMessage.edited(edited, edited.text), new_text="never mind")
        redact_messages(channel.workspace, [RemovedMessage.of(deleted), edit_of])
        assert memory.versions.get(number=3).dropped == [REDACTED]

    def test_a_proposal_with_the_text_of_a_redacted_line_is_deleted(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        make_version(memory=memory, text="- the gate leaves soon\n- fine", sources=[deleted])
        propose = partial(Proposal.objects.propose, memory.current, None, note_type="pattern")
        propose("the gate leaves soon")
        beside = propose("the lamps are green")
        delete(deleted)
        assert list(Proposal.objects.all()) == [beside]

    def test_older_versions_of_notes_and_the_trash_are_redacted(self, channel):
        deleted = say(channel, SECRET)
        note = NoteFactory(workspace=channel.workspace, content=f"Remember: {SECRET}!")
        note.rewrite("Remember the gate", tags=[SECRET])
        note.rewrite("Remember the milk")
        binned = NoteFactory(workspace=channel.workspace, content=f"Remember: {SECRET}!")
        binned.rewrite("Thrown away")
        binned.rewrite(f"Thrown away: {SECRET}")
        binned.remove()
        delete(deleted)
        assert SECRET not in everything()
        texts = list(note.versions.order_by("number").values_list("content", "tags"))
        assert texts == [(f"Remember: {REDACTED}!", []), ("Remember the gate", [])]
        note.refresh_from_db()
        assert (note.content, note.number) == ("Remember the milk", 3)
        binned.refresh_from_db()
        assert binned.content.startswith(f"Thrown away: {REDACTED}")
        assert binned.deleted_at is not None

    def test_stored_replies_of_a_model_are_redacted(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel)
        rows = {}
        for number, state in enumerate(["done", "proposed", "dead", "replied"]):
            rows[state] = make_job(
                memory=memory,
                state=state,
                reply={"text": f"- {SECRET} [1]"} if number % 2 else {"text": "- gate [1]"},
                reply_sources=[[deleted.pk]],
                fault_text=f"The endpoint said: {SECRET}",
            )
        unrelated = make_job(memory=memory, state="done", reply={"text": "- fine"})
        delete(deleted)
        states = {"done": "done", "proposed": "superseded", "dead": "dead", "replied": "waiting"}
        for state, row in rows.items():
            row.refresh_from_db()
            assert row.state == states[state]
            assert row.reply is None
            assert row.fault_text == f"The endpoint said: {REDACTED}"
        unrelated.refresh_from_db()
        assert unrelated.reply == {"text": "- fine"}

    def test_a_running_call_about_a_deleted_message_is_repeated(self, channel):
        deleted, stays = say(channel, SECRET), say(channel, BESIDE, 500)
        memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
        about = [
            make_job(
                memory=memory,
                state="claimed",
                fence=1,
                attempts=1,
                segment=make_segment(messages=[message]),
            )
            for message in (deleted, stays)
        ]
        delete(deleted)
        states = []
        for row in about:
            row.refresh_from_db()
            states.append((row.state, row.fence))
        assert states == [("waiting", 2), ("claimed", 1)]

    def test_a_call_that_began_before_the_commit_is_repeated(
        self, channel, django_capture_on_commit_callbacks
    ):
        deleted = say(channel, SECRET)
        job = make_job(
            memory=Memory.objects.of_channel(channel, MemoryType.SHORT_TERM),
            segment=make_segment(messages=[deleted]),
        )
        with django_capture_on_commit_callbacks(execute=True):
            delete(deleted)
            Job.objects.update(state="claimed", fence=1, attempts=1)
        job.refresh_from_db()
        assert (job.state, job.fence) == ("waiting", 2)

    @pytest.mark.parametrize("which", [0, 1], ids=["earlier segment", "last segment"])
    def test_a_running_call_about_a_thread_of_several_segments_is_repeated(self, channel, which):
        root = say(channel, "Shall we?")
        replies = [
            make_reply(root=root, text=text, at=MONDAY + n * HOUR)
            for n, text in enumerate([SECRET, BESIDE][:: -1 if which else 1], 1)
        ]
        for reply in replies:
            make_segment(messages=[reply], thread_ts=root.ts)
        followups.schedule_thread(Memory.objects.of_thread(channel, root.ts), to_micros(LATER))
        row = Job.objects.with_memory().get()
        assert row.claim(timezone.now(), HOUR)
        question = RequestBuilder(channel.workspace).build(row)
        assert "copper gate" in str(question.request.messages)
        delete(replies[which])
        assert not row.save_reply(Reply(f"- {SECRET} [1]", "stop", "fake", "1"), question.sources)
        row.refresh_from_db()
        assert (row.state, row.reply) == ("waiting", None)

    def test_quarantined_lines(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel)
        cites = QuarantinedLine.objects.create(memory=memory, text="- in other words", rule="url")
        cites.sources.add(deleted)
        quotes = QuarantinedLine.objects.create(memory=memory, text=f"- so {SECRET}", rule="url")
        delete(deleted)
        for row, text in ((cites, REDACTED), (quotes, f"- so {REDACTED}")):
            row.refresh_from_db()
            assert row.text == text

    def test_only_events_about_a_deleted_message_are_skipped(self, channel):
        deleted = say(channel, SECRET)
        body = {"event": {"type": "message", "channel": channel.slack_id, "text": SECRET}}
        for event_id, ts in (("Ev1", deleted.ts), ("Ev2", "1790000000.000100")):
            body["event"]["ts"] = ts
            SlackEvent.objects.create(event_id=event_id, kind="message", body=json.dumps(body))
        delete(deleted)
        about, later = SlackEvent.objects.order_by("pk")
        assert (about.body, about.state, about.reason) == ("", "skipped", "forgotten")
        assert SECRET in later.body  # a later message with the same words is kept

    def test_a_forgotten_channel_leaves_no_failed_event(self, channel):
        channel.workspace.save_team_id("T1")
        event = {
            "type": "message",
            "channel": channel.slack_id,
            "ts": ts_at(MONDAY),
            "text": SECRET,
        }
        SlackEvent.objects.create(
            event_id="Ev1", kind="message", team_id="T1", state="failed", body=json.dumps(event)
        )
        forget_channel(channel, LATER, by=None)
        assert "copper" not in everything()

    def test_events_with_the_old_words_of_an_edited_message(self, channel):
        message = say(channel, SECRET)
        for event_id, text in (("Ev1", SECRET), ("Ev2", "and something newer")):
            event = {"type": "message", "channel": channel.slack_id, "ts": message.ts, "text": text}
            SlackEvent.objects.create(
                event_id=event_id, kind="message", state="failed", body=json.dumps({"event": event})
            )
        edit(message, "other words")
        assert [e.state for e in SlackEvent.objects.order_by("pk")] == ["skipped", "failed"]
        assert "copper" not in everything()

    @pytest.mark.parametrize("live", [True, False], ids=["from Slack", "from an old export"])
    @pytest.mark.parametrize("words", ["look", ""], ids=["linked", "shared"])
    @pytest.mark.parametrize("was_here", [True, False], ids=["known", "new"])
    def test_a_preview_in_another_message_is_redacted_for_good(
        self, channel, words, live, was_here
    ):
        deleted = say(channel, SECRET)
        place = ChannelFactory(workspace=channel.workspace) if live else channel
        link = f"https://x.slack.com/archives/{channel.slack_id}/p{deleted.ts.replace('.', '')}"
        sign = "is_msg_unfurl" if live else "is_share"
        raw = {"type": "message", "ts": ts_at(MONDAY + HOUR), "user": "U2", "text": words,
               "attachments": [{sign: True, "from_url": link, "text": SECRET},
                               {"text": "a second one, of its own"}]}  # fmt: skip

        def stored():
            return place.messages.get(ts=raw["ts"])

        if was_here:
            store_messages(place, [raw], MONDAY + 2 * HOUR, live=live)
        delete(deleted)
        assert "copper" not in everything()
        if was_here:
            assert "a second one" in stored().text and "a second one" in stored().raw
        store_messages(place, [raw], MONDAY + 3 * HOUR, live=live)
        assert "copper" not in everything()
        assert "a second one" in stored().text

    def test_the_old_words_of_a_share_leave_the_memory_of_its_channel(self, channel):
        edited, elsewhere = say(channel, SECRET), ChannelFactory(workspace=channel.workspace)
        link = f"https://x.slack.com/archives/{channel.slack_id}/p{edited.ts.replace('.', '')}"
        share = {"is_share": True, "from_url": link, "text": SECRET}
        raw = {"type": "message", "ts": ts_at(MONDAY + HOUR), "user": "U2", "text": ""}
        store_messages(elsewhere, [raw | {"attachments": [share]}], MONDAY + 2 * HOUR)
        make_segment(messages=list(elsewhere.messages.all()))
        memory = make_channel_memory(channel=elsewhere, texts=[f"- {SECRET}\n- fine"])
        edit(edited, "other words")
        assert memory.versions.get().content == f"- {REDACTED}\n- fine"

    def test_a_reply_sent_to_the_channel_brings_no_root_back(self, channel):
        root = say(channel, SECRET)
        raw = {"type": "message", "subtype": "thread_broadcast", "ts": ts_at(MONDAY + HOUR),
               "user": "U2", "text": "Yes", "thread_ts": root.ts,
               "root": {"ts": root.ts, "text": SECRET}}  # fmt: skip
        delete(root)
        store_messages(channel, [raw], MONDAY + 2 * HOUR)
        assert "copper" not in everything()
        assert channel.messages.get(ts=raw["ts"]).text == "Yes"

    def test_a_reply_sent_to_the_channel_does_not_carry_its_root(self, channel):
        root = say(channel, SECRET)
        reply = make_reply(root=root, at=MONDAY + HOUR, text="Yes")
        raw = {"ts": reply.ts, "thread_ts": root.ts, "text": "Yes", "root": {"text": SECRET}}
        Message.objects.filter(pk=reply.pk).update(raw=json.dumps(raw))
        delete(root)
        assert "copper" not in everything()

    def test_japanese(self, channel):
        deleted = say(channel, "倉庫九番の銅の門は金曜日の午後三時に出荷すると決めました。")
        memory = make_channel_memory(
            channel=channel, texts=["- 決定：倉庫九番の銅の門は、金曜日の午後３時に出荷する予定"]
        )
        delete(deleted)
        assert memory.versions.get().content == "- 決定：[…]３時に出荷する予定"
        deleted = say(channel, "倉庫九番の銅の門は金曜日の午後三時に出荷すると決めました。", 1)
        make_version(memory=memory, text="- 倉庫九番の銅の門は、金曜日の午後三時に出荷する予定")
        delete(deleted)
        assert memory.versions.get(number=2).content == "- […]予定"

    def test_an_edited_short_message_is_redacted_where_it_is_cited(self, channel):
        message = say(channel, "copper gate ships Friday")
        memory = make_channel_memory(channel=channel, texts=["- Copper gate ships Friday"])
        make_version(memory=memory, text="- so: Copper gate ships Friday!", sources=[message])
        edit(message, "never mind")
        assert [v.content for v in memory.versions.order_by("number")] == [
            "- Copper gate ships Friday", f"- so: {REDACTED}!",
        ]  # fmt: skip


@pytest.mark.parametrize("what", ["preview", "root", "name"])
def test_a_message_that_is_deleted_while_copies_are_removed_stays_empty(channel, what):
    """Both messages are read at once. The second is deleted before the first is written."""
    root, person = say(channel, SECRET), PersonFactory(workspace=channel.workspace, name="Quillon")
    link = f"https://x.slack.com/archives/{channel.slack_id}/p{root.ts.replace('.', '')}"
    raw = {
        "preview": {"attachments": [{"is_share": True, "from_url": link, "text": SECRET}]},
        "root": {"root": {"ts": root.ts, "text": SECRET}},
        "name": {"text": f"<@{person.slack_id}|Quillon>"},
    }[what]
    first, second = (
        make_reply(root=root, at=MONDAY + n * HOUR, text="Yes", raw=json.dumps(raw)) for n in (1, 2)
    )
    to_delete = [second.pk]

    def delete_second(execute, sql, *arguments):
        if sql.startswith("UPDATE") and '"raw" = ' in sql and to_delete:
            Message.objects.filter(pk=to_delete.pop()).purge(Message.State.DELETED)
        return execute(sql, *arguments)

    with connection.execute_wrapper(delete_second):
        if what == "name":
            forget_person(person, LATER, by=None)
        else:
            redact_messages(channel.workspace, [RemovedMessage.of(root)])
    first.refresh_from_db()
    second.refresh_from_db()
    assert not to_delete and (second.text, second.raw) == ("", "")
    assert first.text == "Yes" and "copper" not in first.raw and "Quillon" not in first.raw


@pytest.mark.parametrize(
    "change", ["revise", "pin", "rewrite", "rewrite unsourced", "merge", "rewrite above"]
)
def test_a_text_that_is_saved_between_the_search_and_the_lock_is_redacted(
    channel, change, monkeypatch
):
    deleted = say(channel, SECRET)
    memory = short(channel)
    text, sources = f"- {SECRET}\n- fine", [deleted]
    segment = make_segment(messages=[deleted])
    make_version(memory=memory, text=text, sources=sources, segment=segment)
    above = workspace_memory(channel)
    if change == "rewrite above":
        make_version(memory=above, text="- fine")

    def save():
        current = (above if change == "rewrite above" else memory).versions.get()
        if change == "revise":
            memory.revise(f"{text}\n- new", by=UserFactory(), based_on=1)
        elif change == "pin":
            memory.pin(1, by=None, based_on=1)
        elif change == "merge":
            make_version(memory=above, text="- the gate leaves soon", sources=sources)
        else:
            line = LineValue("- the gate leaves soon", Origin.MODEL)
            if change != "rewrite unsourced":
                line = replace(line, sources=(deleted.pk,))
            new = NewVersion(lines=[line], origin=Origin.MODEL, segment=segment)
            assert current.rewrite(new)

    lock, calls = Memory.lock, []

    def save_before(self):
        if not calls:
            calls.append(self)
            save()
        lock(self)

    monkeypatch.setattr(Memory, "lock", save_before)
    delete(deleted)
    wordings = [str(row) for row in EarlierWording.objects.values_list("content", "lines")]
    texts = "\n".join([everything(), *wordings])
    assert calls and "copper" not in texts and "gate" not in texts
    assert bool(wordings) == (change == "pin" or change.startswith("rewrite"))


def test_a_name_that_is_a_word_stays_a_mention_after_a_later_text_is_searched(channel, monkeypatch):
    person = PersonFactory(workspace=channel.workspace, name="Rose", real_name="Heather")
    flowers = say(channel, "A rose is a flower"), say(channel, "The heather is purple", 1)
    memory, above = short(channel), workspace_memory(channel)
    make_version(memory=memory, text="- Rose plants", sources=[flowers[0]])
    note = NoteFactory(workspace=channel.workspace, content="Ask @Rose, not a rose", title="Who")
    lock, calls = Memory.lock, []

    def save_before(self):
        if not calls:
            calls.append(self)
            make_version(memory=above, text="- Heather plants", sources=[flowers[1]])
        lock(self)

    monkeypatch.setattr(Memory, "lock", save_before)
    forget_person(person, LATER, by=None)
    note.refresh_from_db()
    assert calls and above.versions.get().content == "- Heather plants"
    assert note.content.startswith(f"Ask @{REDACTED}, not a rose")


@pytest.mark.postgres("SQLite has one lock for all", only=True)
def test_channels_are_locked_before_their_messages_are_forgotten(channel):
    message = say(channel, SECRET)
    with CaptureQueriesContext(connection) as queries:
        forget_person(message.author, LATER, by=None)
    locked = [
        query["sql"].split(" FROM ")[1].split(" ")[0].strip('"')
        for query in queries
        if " FOR UPDATE" in query["sql"] or " FOR NO KEY UPDATE" in query["sql"]
    ]
    before = locked[: locked.index(Message._meta.db_table)]
    assert before.count(Channel._meta.db_table) == 2  # once for each transaction


@pytest.mark.postgres("SQLite has one lock for all", only=True)
def test_channels_of_its_sources_are_locked_before_a_quarantined_line_is_approved(channel):
    """Deletions lock in this order, too: the channels, the quarantined lines and the memories."""
    places = [ChannelFactory(workspace=channel.workspace) for _ in range(2)]
    memory = make_channel_memory(channel=channel, texts=["- fine"])
    line = QuarantinedLine.objects.create(memory=memory, text="- See the lamps", rule="url")
    line.sources.add(*(say(place, BESIDE) for place in places))
    with CaptureQueriesContext(connection) as queries:
        assert line.approve(by=UserFactory(), based_on=1)
    sql = [query["sql"] for query in queries]
    locks = [statement for statement in sql if " FOR NO KEY UPDATE" in statement]
    tables = [f'FROM "{model._meta.db_table}"' for model in (Channel, Memory)]
    assert tables[0] in locks[0] and "ORDER BY" in locks[0] and tables[1] in locks[1]
    writes = [i for i, statement in enumerate(sql) if statement.startswith("UPDATE")]
    assert sql.index(locks[1]) < writes[0]


class TestDrafts:
    """Text that a person has typed and not saved."""

    @pytest.fixture
    def author(self, channel):
        return MemberFactory(workspace=channel.workspace).user

    def type_over(self, memory, author, text):
        return Draft.objects.save_text(
            Reader.of(author), memory, text, based_on=memory.current.number,
            revision=memory.current.revision, now=timezone.now(),
        )  # fmt: skip

    def test_a_draft_that_quotes_is_deleted(self, channel, author):
        message = say(channel, SECRET)
        memory = make_channel_memory(channel=ChannelFactory(workspace=channel.workspace))
        unrelated = make_channel_memory(channel=channel)
        assert self.type_over(memory, author, f"- {SECRET}")
        assert self.type_over(unrelated, author, f"- {BESIDE}")
        delete(message)
        assert SECRET not in everything()
        assert Draft.objects.get().text == f"- {BESIDE}"

    def test_a_draft_over_a_redacted_text_is_deleted(self, channel, author):
        message = say(channel, SECRET)
        memory = make_channel_memory(channel=channel)
        make_version(memory=memory, text="- The gate leaves soon", sources=[message], until=LATER)
        memory.refresh_from_db()
        assert self.type_over(memory, author, "- The gate leaves soon, I hope")
        seen = memory.current.number, memory.current.revision
        delete(message)
        assert not Draft.objects.exists()
        # Nor does an editor that is still open bring it back.
        again = Draft.objects.save_text(
            Reader.of(author), memory, "- The gate leaves soon, I hope",
            based_on=seen[0], revision=seen[1], now=timezone.now(),
        )  # fmt: skip
        assert again is None and not Draft.objects.exists()


@pytest.mark.parametrize("place", ["line", "text", "reason", "source"])
def test_a_proposal_that_quotes_is_deleted_wherever_it_is(channel, place):
    message = say(channel, SECRET)
    memory = make_channel_memory(
        channel=channel, texts=[f"- {SECRET if place == 'line' else BESIDE}"]
    )
    Proposal.objects.propose(
        memory.current,
        memory.current.lines.get(),
        SECRET if place == "text" else "The gate stays",
        reason=SECRET if place == "reason" else "",
        source_text=SECRET if place == "source" else "",
    )
    beside = Proposal.objects.propose(memory.current, None, BESIDE)
    delete(message)
    assert SECRET not in everything()
    assert list(Proposal.objects.all()) == [beside]


class TestPeople:
    def test_an_edit_based_on_a_redacted_text_is_refused(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}\n- fine"])
        delete(deleted)
        with pytest.raises(StaleBase):
            memory.revise(f"- {SECRET}\n- fine!", by=None, based_on=1, revision=0)

    @pytest.mark.parametrize("what", ["version", "message", "note"])
    def test_a_text_that_was_read_before_a_deletion_is_not_saved_after_it(self, channel, what):
        deleted, person = say(channel, SECRET), UserFactory()
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}\n- fine", "- now"])
        memory.versions.filter(number=1).update(audience="members")
        note = NoteFactory(workspace=channel.workspace, content=SECRET, title="Gate")
        note.rewrite("Remember the milk")
        version, wording = memory.versions.get(number=1), note.versions.get()
        version.audience = "scope"
        message = Message.objects.get(pk=deleted.pk)
        delete(deleted)
        if what == "version":
            restored = memory.restore(version, by=person, based_on=2)
            assert (restored.content, restored.audience) == ("- fine", "members")
        elif what == "message":
            with pytest.raises(ValueError, match="deleted"):
                keep_message(message, SECRET, author=person, now=LATER)
        else:
            assert note.restore(wording, by=person, based_on=2, revision=note.revision)
        assert "copper" not in everything()

    def test_a_note_that_is_restored_during_a_redaction_is_redacted(self, channel, monkeypatch):
        """The notes are searched already. The version is not redacted yet."""
        deleted = say(channel, SECRET)
        note = NoteFactory(workspace=channel.workspace, content=SECRET, title="Gate")
        note.rewrite("Remember the milk")
        wording, mark = note.versions.get(), {"based_on": 2, "revision": note.revision}
        find_versions = NoteVersion.objects.filter
        calls = []

        def restore_first(**given):
            if "note__in" in given and not calls:
                calls.append(given)
                assert note.restore(wording, by=UserFactory(), **mark)
            return find_versions(**given)

        monkeypatch.setattr(NoteVersion.objects, "filter", restore_first)
        delete(deleted)
        assert calls and "copper" not in everything()

    @pytest.mark.parametrize("is_source", [False, True])
    @pytest.mark.parametrize("is_reloaded", [False, True])
    def test_a_quarantined_line_that_was_redacted_does_not_wait(
        self, channel, is_reloaded, is_source
    ):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        line = QuarantinedLine.objects.create(memory=memory, text=f"- {SECRET}", rule="url")
        if is_source:
            line.sources.add(deleted)
        delete(deleted)
        if is_reloaded:
            line.refresh_from_db()
        assert line.approve(by=UserFactory(), based_on=1) is None
        assert not line.reject(by=UserFactory())
        assert not QuarantinedLine.objects.waiting().exists()
        line.refresh_from_db()
        assert line.state == "waiting" and line.decided_by is None
        assert memory.versions.count() == 1

    def test_marks_are_not_copied_into_the_next_version(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}\n- fine"])
        delete(deleted)
        memory.refresh_from_db()
        version = memory.revise(f"- {REDACTED}\n- fine\n- new", by=None, based_on=1, revision=1)
        assert version.content == "- fine\n- new"
        version = memory.restore(memory.versions.get(number=1), by=None, based_on=2)
        assert version.content == "- fine"
        memory.refresh_from_db()
        memory.versions.get(number=3).lines.update(redacted=True)
        with pytest.raises(ValueError, match="forgotten"):
            memory.revise("-  fine", by=None, based_on=3, revision=0)


class TestCost:
    def test_it_does_not_grow_with_the_messages(self, channel):
        def batch(count, begin):
            deleted = [say(channel, f"{SECRET} {n}", begin + n) for n in range(count)]
            make_channel_memory(channel=channel, texts=["- fine"])
            with CaptureQueriesContext(connection) as queries:
                delete(*deleted)
            return len(queries)

        batch(2, 0)
        assert batch(40, 100) == batch(2, 1000)

    def test_a_line_of_many_versions_is_compared_once(self, channel, monkeypatch):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        for _ in range(3):
            make_version(memory=memory, text="- Quillon starts in May", sources=[deleted])
        matcher, counts = redactor.LineMatcher, []

        def count(texts):
            counts.append(len(texts))
            return matcher(texts)

        monkeypatch.setattr(redactor, "LineMatcher", count)
        delete(deleted)
        assert counts == [1, 1]  # of the deleted message, and of the line with its source

    def test_its_own_changes_are_not_searched_again(self, channel, monkeypatch):
        deleted = say(channel, SECRET)
        job = make_job(memory=short(channel), state="failed", fault_text=f"Too long: {SECRET}")
        make_version(memory=short(channel), text=f"- {SECRET}\n- fine", job=job)
        find, calls = merges.find_changed, []

        def record(*arguments):
            calls.append(find(*arguments))
            return calls[-1]

        monkeypatch.setattr(merges, "find_changed", record)
        touched = redact_messages(channel.workspace, [RemovedMessage.of(deleted)])
        assert (touched.versions, touched.jobs, calls) == (1, 1, [set()])

    def test_redaction_changes_nothing_without_quotes(self, channel):
        deleted = say(channel, SECRET)
        memory = make_channel_memory(channel=channel, texts=["- fine"])
        touched = redact_messages(channel.workspace, [RemovedMessage.of(deleted)])
        assert touched.as_json() == {
            "messages": 1, "versions": 0, "lines": 0, "jobs": 0, "quarantined": 0,
            "notes": 0, "events": 0, "memories": [],
        }  # fmt: skip
        assert memory.versions.get().revision == 0


@pytest.mark.slow
def test_a_revoked_source_is_redacted_and_its_texts_rebuilt(channel):
    message = say(channel, SECRET)
    say(channel, BESIDE, 1)
    run_pass(channel.workspace, LATER)
    removed = [RemovedMessage.of(Message.objects.get(pk=message.pk))]
    Message.objects.filter(pk=message.pk).update(is_revoked=True)
    redact_messages(channel.workspace, removed)
    run_pass(channel.workspace, LATER + HOUR)
    for memory in (short(channel), long(channel), workspace_memory(channel)):
        assert "eleven green lamps" in memory.current.content
        assert "copper" not in memory.current.content
    # The source is restored, and the same job is needed again.
    Message.objects.filter(pk=message.pk).update(is_revoked=False)
    Segment.objects.update(stale=True)
    run_pass(channel.workspace, LATER + 2 * HOUR)
    assert "copper" in workspace_memory(channel).current.content


def test_contexts_leave_out_fully_redacted_lines(channel):
    deleted = say(channel, SECRET)
    memory = make_channel_memory(
        channel=channel, memory_type=MemoryType.SHORT_TERM, texts=["- fine", f"- {SECRET}"]
    )
    delete(deleted)
    text = build_context(channel.workspace, Reader.public(), channel="gates", now=LATER).text
    assert "fine" in text
    assert REDACTED not in text
    assert memory.versions.get(number=2).content == REDACTED
