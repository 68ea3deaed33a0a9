"""Lines that people wrote or pinned stay through every kind of pass, even when added during it."""

import pytest

from memories.models import Job
from memories.pipeline.generate.passes import run_pass
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import RequestStrategy
from tests.factories import MONDAY, WorkspaceFactory
from tests.pipeline import current
from tests.pipeline.conversations import Scribe, edit, hours, remembering, removals, talk

pytestmark = pytest.mark.django_db


class Sieve(Scribe):
    """Omits all existing lines, so that only new lines of a merge are left."""

    def summarise(self, request, strategy=RequestStrategy.WHOLE):
        from dataclasses import replace

        reply = super().summarise(request, strategy)
        refs = {f"[{line.ref}]" for line in request.existing}
        lines = [line for line in reply.text.split("\n") if line.split()[-1] not in refs]
        if request.uses_operations:
            lines += removals(request)
        return replace(reply, text="\n".join(lines))


def pin(memory, position, pinned=True):
    version = memory.current
    return memory.pin(
        position, by=None, based_on=version.number, revision=version.revision, pinned=pinned
    )


def pinned_of(memory):
    return [line.text for line in memory.current.lines.filter(pinned=True)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["operations", "rewrite"])
def test_a_pinned_line_survives_a_merge(private_channel, mode):
    """The model's operation on such a line is not carried out; a rewrite may lose it."""
    private_channel.workspace.change_settings({"merge_mode": mode})
    talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    memory = current.long(private_channel)
    text = memory.current.lines.get(position=1).text
    sources = memory.current.line_values()[1].sources
    assert pin(memory, 1) and sources
    talk(private_channel, 3, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(27), Sieve())
    memory = current.long(private_channel)
    assert (memory.head, pinned_of(memory)) == (2, [text])
    held_by = [text] if mode == "rewrite" else []
    assert (memory.current.put_back, memory.current.kept) == (held_by, [] if held_by else [text])
    assert memory.current.dropped == ([] if held_by else [f"kept_line: {text.removeprefix('- ')}"])
    (kept,) = memory.current.protected_lines()
    assert (kept.sources, kept.since) == (sources, 1)
    talk(private_channel, 3, MONDAY + hours(48))
    run_pass(private_channel.workspace, MONDAY + hours(51), Scribe())
    memory = current.long(private_channel)
    assert (memory.current.put_back, memory.current.kept) == ([], [text])
    # Unpinned, it is the model's to drop.
    pin(memory, [line.text for line in memory.current.lines.all()].index(text), pinned=False)
    talk(private_channel, 3, MONDAY + hours(72))
    run_pass(private_channel.workspace, MONDAY + hours(75), Sieve())
    assert text not in current.long(private_channel).current.content


@pytest.mark.slow
def test_a_pin_set_during_a_model_call_is_kept(private_channel, monkeypatch):
    talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    text = current.long(private_channel).current.lines.get(position=0).text
    save_reply = Job.save_reply

    def then_pin(job, *arguments):
        """Pin after the reply was received, and before the job is closed."""
        if job.inputs.exists() and job.memory.scope == "channel":
            pin(current.long(private_channel), 0)
        return save_reply(job, *arguments)

    monkeypatch.setattr(Job, "save_reply", then_pin)
    talk(private_channel, 3, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(27), Sieve())
    memory = current.long(private_channel)
    assert (memory.head, pinned_of(memory)) == (2, [text])
    assert memory.current.put_back == [text]
    removed = memory.versions.get(number=1).lines.exclude(outcome="")
    assert text not in [line.text for line in removed] and removed.count() == 2


@pytest.mark.slow
def test_a_rewritten_segment_keeps_its_pins(private_channel):
    messages = talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    memory = current.short(private_channel)
    text = memory.current.lines.get(position=0).text
    pin(memory, 0)
    edit(messages[0])
    run_pass(private_channel.workspace, MONDAY + hours(4), Scribe())
    memory = current.short(private_channel)
    assert (memory.head, memory.current.revision) == (1, 1)
    assert (pinned_of(memory), memory.current.put_back) == ([text], [text])


@pytest.mark.slow
def test_pins_of_a_provisional_text_move_to_its_segment(private_channel):
    talk(private_channel, 1)
    run_pass(private_channel.workspace, MONDAY + hours(0.2), Scribe())
    memory = current.short(private_channel)
    assert memory.current.provisional
    text = memory.current.lines.get().text
    pin(memory, 0)
    talk(private_channel, 3, MONDAY + hours(0.5))
    run_pass(private_channel.workspace, MONDAY + hours(5), Scribe())
    memory = current.short(private_channel)
    assert not memory.current.provisional
    assert pinned_of(memory) == [text]


@pytest.mark.slow
def test_the_text_keeps_its_pins_when_history_is_off(private_channel):
    private_channel.workspace.change_settings(
        {"history_enabled": False, "short_term_window_hours": 1}
    )
    talk(private_channel, 3)
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    memory = current.short(private_channel)
    text = memory.current.lines.get(position=0).text
    pin(memory, 0)
    talk(private_channel, 3, MONDAY + hours(24))
    run_pass(private_channel.workspace, MONDAY + hours(27), Scribe())
    memory = current.short(private_channel)
    assert (memory.head, pinned_of(memory)) == (1, [text])
    assert "05.24" not in text and len(memory.current.line_values()) == 4


@pytest.mark.slow
def test_workspace_short_term_memory_keeps_lines_of_people():
    workspace = WorkspaceFactory(settings={"thread_memories": False, "workspace_short_term": True})
    channel = remembering(workspace, name="launch")
    talk(channel, 3)
    run_pass(workspace, MONDAY + hours(3), Scribe())
    memory = current.workspace_memory(channel, MemoryType.SHORT_TERM)
    memory.revise("- By hand", by=None, based_on=memory.current.number)
    talk(channel, 3, MONDAY + hours(24))
    run_pass(workspace, MONDAY + hours(27), Sieve())
    memory = current.workspace_memory(channel, MemoryType.SHORT_TERM)
    assert memory.current.origin == "model"
    assert "- By hand" in memory.current.content
    assert len(memory.current.line_values()) > 1
