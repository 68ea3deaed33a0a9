"""The short-term versions that a long-term memory has merged."""

import pytest
from django.utils import timezone

from memories.models import (
    Job,
    Memory,
)
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    UserFactory,
    make_job,
    make_segment,
    make_version,
)
from tests.models.memory.test_memories import LONG, SHORT, draft

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("constraints and conditional updates")]


class TestNotMerged:
    """The short-term versions that the long-term memory has still to merge (rule 5)."""

    @pytest.fixture
    def long(self):
        return Memory.objects.of_channel(ChannelFactory(), LONG)

    @pytest.fixture
    def short(self, long):
        return Memory.objects.of_channel(long.channel, SHORT)

    @pytest.fixture
    def version(self, short, long):
        segment = make_segment(messages=[MessageFactory(channel=long.channel)])
        return make_version(memory=short, text="- one", segment=segment)

    def merge(self, memory, *versions, state=Job.State.DONE):
        job = make_job(memory=memory, inputs=versions, state=Job.State.CLAIMED)
        job.close(state, timezone.now())
        return job

    def unmerged_texts(self, short, long):
        return [v.content for v in short.versions.not_merged().in_order()]

    def test_new_versions_are_not_merged(self, short, long, version):
        assert self.unmerged_texts(short, long) == ["- one"]

    def test_inputs_of_a_finished_merge_are_merged(self, short, long, version):
        self.merge(long, version)
        assert self.unmerged_texts(short, long) == []

    @pytest.mark.parametrize("state", [s for s in Job.State if s != Job.State.DONE])
    def test_inputs_of_an_unfinished_merge_are_not_merged(self, short, long, version, state):
        self.merge(long, version, state=state)
        assert self.unmerged_texts(short, long) == ["- one"]

    def test_a_merge_into_the_workspaces_short_term_memory_does_not_count(
        self, short, long, version
    ):
        self.merge(Memory.objects.of_workspace(long.workspace, SHORT), version)
        assert self.unmerged_texts(short, long) == ["- one"]

    def test_a_rewrite_during_a_merge_is_not_merged(self, short, long, version):
        job = make_job(memory=long, inputs=[version], state=Job.State.CLAIMED)
        version.rewrite(draft("- again", segment=version.segment))
        job.close(Job.State.DONE, timezone.now())
        assert self.unmerged_texts(short, long) == ["- again"]

    def test_a_rewrite_after_a_merge_is_not_merged(self, short, long, version):
        self.merge(long, version)
        version.rewrite(draft("- again", segment=version.segment))
        assert self.unmerged_texts(short, long) == ["- again"]
        self.merge(long, version)
        assert self.unmerged_texts(short, long) == []

    def test_only_the_newest_version_of_a_segment_counts(self, short, long, version):
        short.revise("- mine", by=UserFactory(), based_on=1)
        assert self.unmerged_texts(short, long) == ["- mine"]

    def test_an_edit_of_a_merged_text_is_not_merged(self, short, long, version):
        self.merge(long, version)
        short.revise("- mine", by=UserFactory(), based_on=1)
        assert self.unmerged_texts(short, long) == ["- mine"]

    def test_a_provisional_version_never_counts(self, short, long, version):
        make_version(memory=short, text="- for now", provisional=True)
        assert self.unmerged_texts(short, long) == ["- one"]

    def test_versions_are_in_order_of_their_periods(self, short, long):
        for text, day in (("- tuesday", 6), ("- monday", 5)):
            make_version(memory=short, text=text, until=MONDAY.replace(day=day))
        assert self.unmerged_texts(short, long) == ["- monday", "- tuesday"]
