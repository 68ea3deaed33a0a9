"""The identities of memories, and their constraints."""

import pytest
from django.db import IntegrityError, transaction

from memories.models import (
    Line,
    Memory,
    MemoryVersion,
)
from memories.rules.memory.identity import MemoryScope
from tests.factories import (
    ChannelFactory,
    WorkspaceFactory,
    make_channel_memory,
)
from tests.models.memory.test_memories import LONG, SHORT, TS

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("constraints and conditional updates")]


@pytest.mark.parametrize("verb", ["insert", "update"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": "channel", "scope_id": "C2"},
        {"scope": "channel", "scope_id": "C1:" + TS},
        {"scope": "thread", "scope_id": "C2:" + TS, "thread_ts": TS},
        {"scope": "thread", "scope_id": "C1:1767603600.000200", "thread_ts": TS},
        {"scope": "channel", "scope_id": "C1", "workspace": "another"},
    ],
    ids=["other channel", "thread's id", "other channel's thread", "other thread", "workspace"],
)
def test_the_scope_id_names_the_channel(verb, wrong):
    channel = ChannelFactory(slack_id="C1")
    ChannelFactory(slack_id="C2", workspace=channel.workspace)
    row = {"channel": channel, "workspace": channel.workspace, "memory_type": SHORT} | wrong
    if "workspace" in wrong:
        row["workspace"] = WorkspaceFactory()
    right = Memory.objects.of_channel(channel, SHORT)
    with pytest.raises(IntegrityError), transaction.atomic():
        if verb == "insert":
            right.delete()
            Memory.objects.bulk_create([Memory(**row)])
        else:
            Memory.objects.filter(pk=right.pk).update(**row)
    assert Memory.objects.get().scope_id == "C1"


class TestIdentity:
    @pytest.fixture
    def channel(self):
        return ChannelFactory(slack_id="C1")

    def of(self, channel, scope, memory_type):
        if scope == MemoryScope.WORKSPACE:
            return Memory.objects.of_workspace(channel.workspace, memory_type)
        if scope == MemoryScope.CHANNEL:
            return Memory.objects.of_channel(channel, memory_type)
        return Memory.objects.of_thread(channel, TS)

    @pytest.mark.parametrize(
        ("scope", "memory_type", "scope_id"),
        [
            (MemoryScope.WORKSPACE, LONG, "default"),
            (MemoryScope.WORKSPACE, SHORT, "default"),
            (MemoryScope.CHANNEL, LONG, "C1"),
            (MemoryScope.CHANNEL, SHORT, "C1"),
            (MemoryScope.THREAD, SHORT, f"C1:{TS}"),
        ],
    )
    def test_each_of_the_five_pairs_is_created_once(self, channel, scope, memory_type, scope_id):
        memory = self.of(channel, scope, memory_type)
        assert (memory.scope, memory.scope_id, memory.memory_type) == (scope, scope_id, memory_type)
        assert memory.workspace == channel.workspace
        assert self.of(channel, scope, memory_type) == memory
        with pytest.raises(IntegrityError), transaction.atomic():
            Memory.objects.create(
                workspace=memory.workspace,
                scope=scope,
                scope_id=scope_id,
                memory_type=memory_type,
                channel=memory.channel,
                thread_ts=memory.thread_ts,
            )

    def test_each_workspace_has_its_own_memory(self, channel):
        elsewhere = ChannelFactory(slack_id="C1")
        for scope in MemoryScope:
            assert self.of(channel, scope, SHORT) != self.of(elsewhere, scope, SHORT)

    def test_a_thread_has_no_long_term_memory(self, channel):
        row = Memory(
            workspace=channel.workspace,
            scope="thread",
            scope_id=f"C1:{TS}",
            memory_type="long_term",
            channel=channel,
            thread_ts=TS,
        )
        with pytest.raises(IntegrityError, match="memory_valid_pair"), transaction.atomic():
            row.save()
        with pytest.raises(IntegrityError, match="memory_valid_pair"), transaction.atomic():
            Memory.objects.bulk_create([row])
        short = Memory.objects.of_thread(channel, TS)
        with pytest.raises(IntegrityError, match="memory_valid_pair"), transaction.atomic():
            Memory.objects.filter(pk=short.pk).update(memory_type="long_term")

    @pytest.mark.parametrize(
        ("scope", "scope_id", "in_channel", "thread_ts"),
        [
            pytest.param("workspace", "other", False, "", id="a workspace's has the one id"),
            pytest.param("workspace", "default", True, "", id="a workspace's is in no channel"),
            pytest.param("workspace", "default", False, TS, id="a workspace's is in no thread"),
            pytest.param("channel", "C1", False, "", id="a channel's has its channel"),
            pytest.param("channel", "C1", True, TS, id="a channel's is in no thread"),
            pytest.param("thread", f"C1:{TS}", True, "", id="a thread's has its thread"),
            pytest.param("thread", f"C1:{TS}", False, TS, id="a thread's has its channel"),
            pytest.param("planet", "C1", True, "", id="a scope that is none"),
        ],
    )
    def test_constraints_check_the_scope(self, channel, scope, scope_id, in_channel, thread_ts):
        with pytest.raises(IntegrityError), transaction.atomic():
            Memory.objects.create(
                workspace=channel.workspace,
                scope=scope,
                scope_id=scope_id,
                memory_type="short_term",
                channel=channel if in_channel else None,
                thread_ts=thread_ts,
            )


class TestConstraintsOfVersions:
    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"number": 1}, "number"),
            ({"number": 0}, "version_counts_from_1"),
            ({"content": ""}, "version_says_something"),
        ],
        ids=["a number twice", "number 0", "no text"],
    )
    def test_constraints_refuse_invalid_versions(self, change, name):
        memory = make_channel_memory(channel=ChannelFactory())
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            MemoryVersion.objects.create(
                **{"memory": memory, "number": 2, "content": "x", "origin": "model"} | change
            )

    def test_two_lines_have_no_common_position(self):
        line = Line.objects.get(version=make_channel_memory(channel=ChannelFactory()).current)
        with pytest.raises(IntegrityError), transaction.atomic():
            Line.objects.create(version=line.version, position=0, text="x", origin="model", since=1)
