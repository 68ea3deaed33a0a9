"""The rows of S0's test tables, by name, and the stricter rules of this program."""

import dataclasses
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.memory.identity import (
    VALID_MEMORY_COMBINATIONS,
    InvalidMemoryCombination,
    Memory,
    MemoryScope,
    MemoryType,
    create_memory,
    is_valid_memory_combination,
    make_thread_scope_id,
    parse_thread_scope_id,
)

NOW = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
VALUE = {
    "scope": MemoryScope.CHANNEL,
    "scope_id": "C1234567890",
    "memory_type": MemoryType.LONG_TERM,
    "content": "- We ship on Fridays.",
    "created_at": NOW,
    "updated_at": NOW,
    "source_message_count": 3,
}
NEEDED = ("scope", "scope_id", "memory_type", "content", "source_message_count")
TS = "1234567890.123456"


class TestMemoryScope:
    def test_values(self):
        """値の確認"""
        assert {scope.name: scope.value for scope in MemoryScope} == {
            "WORKSPACE": "workspace",
            "CHANNEL": "channel",
            "THREAD": "thread",
        }


class TestMemoryType:
    def test_values(self):
        """値の確認"""
        assert {kind.name: kind.value for kind in MemoryType} == {
            "LONG_TERM": "long_term",
            "SHORT_TERM": "short_term",
        }


class TestIsValidMemoryCombination:
    @pytest.mark.parametrize(
        ("scope", "memory_type", "expected"),
        [
            pytest.param("workspace", "long_term", True, id="WORKSPACE + LONG_TERM"),
            pytest.param("workspace", "short_term", True, id="WORKSPACE + SHORT_TERM"),
            pytest.param("channel", "long_term", True, id="CHANNEL + LONG_TERM"),
            pytest.param("channel", "short_term", True, id="CHANNEL + SHORT_TERM"),
            pytest.param("thread", "short_term", True, id="THREAD + SHORT_TERM"),
            pytest.param("thread", "long_term", False, id="THREAD + LONG_TERM"),
        ],
    )
    def test_pair(self, scope, memory_type, expected):
        assert is_valid_memory_combination(MemoryScope(scope), MemoryType(memory_type)) is expected

    def test_the_table_names_every_pair(self):
        assert len(VALID_MEMORY_COMBINATIONS) == 5
        assert set(product(MemoryScope, MemoryType)) - VALID_MEMORY_COMBINATIONS == {
            (MemoryScope.THREAD, MemoryType.LONG_TERM)
        }


class TestMemory:
    def test_made(self):
        """正常生成"""
        memory = Memory(**VALUE)
        assert memory.content == "- We ship on Fridays."
        assert memory.source_latest_message_ts is None

    def test_invalid_combination(self):
        """無効な組み合わせ"""
        with pytest.raises(ValueError, match="thread has no long_term"):
            Memory(**VALUE | {"scope": MemoryScope.THREAD})

    @pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Memory)])
    def test_immutable(self, field):
        """イミュータブル"""
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(Memory(**VALUE), field, "x")

    def test_a_changed_copy_is_checked_too(self):
        memory = Memory(**VALUE)
        assert dataclasses.replace(memory, content="- On Mondays.") != memory
        with pytest.raises(InvalidMemoryCombination):
            dataclasses.replace(memory, scope=MemoryScope.THREAD)

    def test_equal_by_content(self):
        """比較"""
        assert Memory(**VALUE) == Memory(**VALUE)
        assert Memory(**VALUE) != Memory(**VALUE | {"scope_id": "C2"})


class TestCreateMemory:
    def test_optional_values_have_defaults(self):
        """正常生成"""
        memory = create_memory(**{key: VALUE[key] for key in NEEDED}, now=NOW)
        assert memory == Memory(**VALUE)

    def test_times(self):
        """日時設定: both times are set, to the same aware time (S0 uses naive local time)."""
        before = datetime.now(UTC)
        memory = create_memory(**{key: VALUE[key] for key in NEEDED})
        assert memory.created_at == memory.updated_at
        assert before <= memory.created_at <= datetime.now(UTC)

    def test_invalid_combination(self):
        """無効な組み合わせ"""
        with pytest.raises(ValueError, match="thread has no long_term"):
            create_memory(MemoryScope.THREAD, f"C1:{TS}", MemoryType.LONG_TERM, "x", 1)

    def test_a_thread_needs_a_valid_scope_id(self):
        """S0 accepts any text, but a memory needs the id of its thread."""
        good = create_memory(
            MemoryScope.THREAD, make_thread_scope_id("C1", TS), MemoryType.SHORT_TERM, "x", 1
        )
        assert parse_thread_scope_id(good.scope_id) == ("C1", TS)
        with pytest.raises(ValueError, match="Not a thread's scope id"):
            create_memory(MemoryScope.THREAD, "C1", MemoryType.SHORT_TERM, "x", 1)

    def test_latest_message_is_kept(self):
        memory = create_memory(**{key: VALUE[key] for key in NEEDED}, source_latest_message_ts=TS)
        assert memory.source_latest_message_ts == TS


class TestThreadScopeId:
    def test_make(self):
        """正常生成"""
        assert make_thread_scope_id("C1234567890", TS) == f"C1234567890:{TS}"

    def test_parse(self):
        """正常パース"""
        assert parse_thread_scope_id(f"C1234567890:{TS}") == ("C1234567890", TS)

    # S0 refuses only what has no colon; an empty half or a ts that is none is refused here too.
    @pytest.mark.parametrize(
        "scope_id",
        [
            pytest.param("C1234567890", id="no colon"),
            pytest.param("", id="empty"),
            pytest.param(":", id="two empty halves"),
            pytest.param(f":{TS}", id="no channel"),
            pytest.param("C1:", id="no ts"),
            pytest.param("C1:yesterday", id="not a ts"),
            pytest.param("C1:1234567890", id="a ts without its dot"),
            pytest.param(f"C1:{TS}:{TS}", id="a colon too many"),
            pytest.param(f" C1:{TS}", id="white space before"),
            pytest.param(f"C1 :{TS}", id="white space inside"),
            pytest.param(f"C1:{TS}\n", id="a newline after"),
            pytest.param("default", id="the workspace's"),
        ],
    )
    def test_parse_error(self, scope_id):
        """パースエラー"""
        with pytest.raises(ValueError, match="Not a thread's scope id"):
            parse_thread_scope_id(scope_id)

    @pytest.mark.parametrize("channel_id", ["", "C1:C2", " C1", "C1\n"])
    def test_make_and_parse_refuse_the_same_ids(self, channel_id):
        with pytest.raises(ValueError, match="Not a channel id"):
            make_thread_scope_id(channel_id, TS)

    @given(
        st.from_regex(r"[CDG][A-Z0-9]{1,12}", fullmatch=True),
        st.from_regex(r"[0-9]{1,12}\.[0-9]{1,6}", fullmatch=True),
    )
    def test_round_trip(self, channel_id, ts):
        assert parse_thread_scope_id(make_thread_scope_id(channel_id, ts)) == (channel_id, ts)

    @given(st.text(max_size=40))
    def test_a_parsed_id_can_be_formatted_again(self, scope_id):
        try:
            parts = parse_thread_scope_id(scope_id)
        except ValueError:
            return
        assert make_thread_scope_id(*parts) == scope_id
