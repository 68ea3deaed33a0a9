"""Proposals: a merge that would shrink a long-term memory waits for approval."""

from dataclasses import replace

import pytest

from memories.models import AuditEvent, ChangedSince, Job, Memory, QuarantinedLine, StaleBase
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.memory import proposals
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import hash_text
from tests.factories import MONDAY, UserFactory
from tests.pipeline.conversations import Scribe, hours, removals, talk
from tests.pipeline.current import long

pytestmark = pytest.mark.django_db


class Forgetful(Scribe):
    """A summariser that drops all lines of a long-term memory except one, and those with ``kept``."""

    def __init__(self, kept=""):
        super().__init__()
        self.kept = kept

    def summarise(self, request, strategy="whole"):
        reply = super().summarise(request, strategy)
        if request.existing and request.additions:
            dropped = [x for x in request.existing if not self.kept or self.kept not in x.text]
            removed = removals(replace(request, existing=dropped))
            return replace(reply, text="\n".join([*removed, reply.text.split("\n")[-1]]))
        return reply


@pytest.fixture
def proposal(private_channel):
    talk(private_channel, 12, words="The very first plan of the whole big launch")
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    talk(private_channel, 3, MONDAY + hours(24), words="Later")
    report = run_pass(private_channel.workspace, MONDAY + hours(27), Forgetful())
    assert report.skipped["proposed"] == 1
    return proposals.find_proposal(long(private_channel))


@pytest.mark.slow
def test_the_old_text_stays_and_no_further_call_is_made(private_channel, proposal):
    memory = long(private_channel)
    assert memory.head == 1 and "first plan" in memory.current.content
    scribe = Scribe()
    run_pass(private_channel.workspace, MONDAY + hours(27), scribe)
    assert scribe.requests == []


@pytest.mark.slow
def test_an_approved_proposal_is_the_next_version(private_channel, proposal):
    anna = UserFactory(username="anna")
    shown = proposals.proposed_lines(proposal)
    version = proposals.approve(proposal, by=anna)
    assert version.number == 2 and version.content == "\n".join(line.text for line in shown)
    assert long(private_channel).current == version
    assert AuditEvent.objects.get(action="proposal_accept").actor == "anna"
    assert proposals.find_proposal(long(private_channel)) is None
    assert proposals.approve(Job.objects.get(pk=proposal.pk), by=anna) is None


def test_a_persons_line_stays_once_although_the_request_cleaned_it(private_channel):
    talk(private_channel, 12, words="The very first plan of the whole big launch")
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    memory, anna = long(private_channel), UserFactory()
    own = "- The zero\u200bwidth rule stands"
    memory.revise(f"{memory.current.content}\n{own}", by=anna, based_on=1)
    talk(private_channel, 3, MONDAY + hours(24), words="Later")
    run_pass(private_channel.workspace, MONDAY + hours(27), Forgetful(kept="zerowidth"))
    proposal = proposals.find_proposal(memory)
    shown = proposals.proposed_text(proposal)
    assert shown.count("width rule") == 1 and own in shown
    version = proposals.approve(
        proposal, by=anna, text=f"{shown}\n- Anna adds this", shown=hash_text(shown)
    )
    assert version.content == f"{shown}\n- Anna adds this"


@pytest.mark.slow
def test_a_proposal_without_allowed_lines_is_quarantined(private_channel, proposal):
    count = len(long(private_channel).current.line_values())
    removed = [f"- L{number} [{count + 1}]" for number in range(1, count + 1)]
    words = "Read more at https://elsewhere.example/plan"
    text = "\n".join([*removed, f"+ {words} [{count + 1}]"])
    proposal.reply = {**proposal.reply, "text": text}
    proposal.save(update_fields=["reply"])
    with pytest.raises(StaleBase):
        proposals.approve(proposal, by=None)
    assert [line.text for line in QuarantinedLine.objects.all()] == [words]
    assert "first plan" in long(private_channel).current.content


@pytest.mark.slow
def test_inputs_of_a_rejected_proposal_are_merged_next(private_channel, proposal):
    assert proposals.reject(proposal, by=None) is True
    assert proposals.reject(proposal, by=None) is False
    run_pass(private_channel.workspace, MONDAY + hours(27), Scribe())
    assert long(private_channel).head == 1, "the very same is not asked again"
    talk(private_channel, 3, MONDAY + hours(48), words="Latest")
    run_pass(private_channel.workspace, MONDAY + hours(51), Scribe())
    content = long(private_channel).current.content
    assert all(words in content for words in ("first plan", "Later", "Latest"))


@pytest.mark.slow
def test_a_merge_with_more_inputs_replaces_it(private_channel, proposal):
    talk(private_channel, 3, MONDAY + hours(48), words="Latest")
    run_pass(private_channel.workspace, MONDAY + hours(51), Scribe())
    assert proposals.find_proposal(long(private_channel)) is None
    assert (
        "Later" in long(private_channel).current.content
        and "Latest" in long(private_channel).current.content
    )


@pytest.mark.slow
def test_a_proposal_is_stale_after_an_edit(private_channel, proposal):
    memory = long(private_channel)
    memory.revise(memory.current.content + "\n- Anna's word.", by=None, based_on=1)
    with pytest.raises(StaleBase):
        proposals.approve(proposal, by=None)
    assert proposals.find_proposal(memory) is None
    run_pass(private_channel.workspace, MONDAY + hours(27), Scribe())
    content = long(private_channel).current.content
    assert all(words in content for words in ("first plan", "Anna's word", "Later"))


@pytest.mark.slow
def test_a_small_text_may_shrink(private_channel):
    talk(private_channel, 2, words="Early")
    run_pass(private_channel.workspace, MONDAY + hours(3), Scribe())
    talk(private_channel, 3, MONDAY + hours(24), words="Later")
    run_pass(private_channel.workspace, MONDAY + hours(27), Forgetful())
    assert Memory.objects.of_channel(private_channel, MemoryType.LONG_TERM).head == 2


def test_an_edited_proposal_is_one_version(private_channel, proposal):
    anna = UserFactory(username="anna")
    shown = proposals.proposed_text(proposal)
    text = f"- Anna decides about it\n\n{shown}\n"
    version = proposals.approve(proposal, by=anna, text=text, shown=hash_text(shown))
    assert version.content == f"- Anna decides about it\n{shown}"
    assert [line.author_id for line in version.lines.all()] == [anna.pk, None]
    assert (version.author, version.job, version.origin) == (anna, proposal, "model")
    memory = long(private_channel)
    assert (memory.current, memory.head, memory.versions.count()) == (version, 2, 2)


def test_an_unchanged_text_is_no_edit(private_channel, proposal):
    shown = proposals.proposed_text(proposal)
    text = shown.replace("\n", "\n\n")
    version = proposals.approve(proposal, by=UserFactory(), text=text, shown=hash_text(shown))
    assert (version.content, version.author) == (shown, None)


def test_forgotten_text_does_not_return_by_an_edit(private_channel, proposal):
    memory = long(private_channel)
    line = memory.current.lines.first()
    memory.current.lines.filter(pk=line.pk).update(redacted=True)
    shown = hash_text(proposals.proposed_text(proposal))
    with pytest.raises(ValueError, match="forgotten"):
        proposals.approve(proposal, by=None, text=line.text, shown=shown)
    proposal.refresh_from_db()
    assert (proposal.state, long(private_channel).head) == (Job.State.PROPOSED, 1)
    text = f"{line.text}\n- Anna decides"
    version = proposals.approve(proposal, by=None, text=text, shown=shown)
    assert version.content == "- Anna decides"


def test_an_edit_does_not_drop_a_line_that_was_pinned_meanwhile(private_channel, proposal):
    memory, shown = long(private_channel), hash_text(proposals.proposed_text(proposal))
    line = memory.current.lines.first()
    memory.pin(line.position, by=None, based_on=1)
    with pytest.raises(ChangedSince):
        proposals.approve(proposal, by=None, text="- Anna decides", shown=shown)
    proposal.refresh_from_db()
    assert proposal.state == Job.State.PROPOSED
    version = proposals.approve(proposal, by=None)
    assert line.text in version.content and version.author is None
