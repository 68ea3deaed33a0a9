"""The input of a prompt: S3's test tables, with a local endpoint.

The seed's summariser takes its input from a Context, ours from a Request (rules 4-7). So these tests
read the prompt that the endpoint received. The tests of the pipeline cover the content of a Request.
"""

import re
from typing import Any

import pytest

from memories import llm
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.summariser import Reference, Request
from tests.llm.endpoint import FakeEndpoint
from tests.llm.requests import added, long, make_request, memory, messages, short

CHANNEL = Reference("memory of #general", "- the channel's memory")
WORKSPACE = Reference("workspace memory", "- the workspace's memory")


def thread(**parts: Any) -> Request:
    return make_request(MemoryScope.THREAD, MemoryType.SHORT_TERM, **parts)


def workspace(kind: MemoryType, **parts: Any) -> Request:
    return make_request(MemoryScope.WORKSPACE, kind, **{"place": "Example", **parts})


def block(prompt: str, title: str) -> list[str]:
    """Return the lines of the only block whose title begins so."""
    [lines] = re.findall(rf"^<<{title}[^\n]*>>\n(.*?)\n?<<end", prompt, re.DOTALL | re.MULTILINE)
    return str(lines).split("\n")


class TestThread:
    def test_thread_messages_are_used(self, endpoint: FakeEndpoint) -> None:
        """スレッドメッセージ使用"""
        endpoint.reply_with("- agreed [2]")
        request = thread(messages=messages("shall we?", "yes", thread="1793610000.000100"))
        assert llm.summarise(request, endpoint.summariser()).text == "- agreed [2]"
        assert block(endpoint.prompt()[1], "messages") == [
            "1 [2026-11-02 09:00] Ana: shall we?",
            "2 [2026-11-02 09:01] Ana: yes",
        ]

    def test_channel_and_workspace_memory_are_background(self, endpoint: FakeEndpoint) -> None:
        """補助情報: S3's table names both for a thread."""
        endpoint.reply_with("- agreed [1]")
        request = thread(messages=messages("yes"), references=[CHANNEL, WORKSPACE])
        llm.summarise(request, endpoint.summariser())
        system, user = endpoint.prompt()
        assert block(user, "reference: memory of #general") == [CHANNEL.text]
        assert block(user, "reference: workspace memory") == [WORKSPACE.text]
        assert "do not summarise them" in user

    def test_without_a_target_no_call_is_made(self, endpoint: FakeEndpoint) -> None:
        """target なし: no thread, so no messages, so "" without a call."""
        reply = llm.summarise(thread(), endpoint.summariser())
        assert (reply.text, reply.calls, reply.finish_reason) == ("", 0, "stop")
        assert endpoint.server.log == []

    def test_existing_memory_is_in_the_prompt(self, endpoint: FakeEndpoint) -> None:
        """既存記憶更新"""
        endpoint.reply_with("- agreed [2]")
        request = thread(existing=memory("what was"), messages=messages("yes", first=2))
        llm.summarise(request, endpoint.summariser())
        assert block(endpoint.prompt()[1], "existing memory") == ["1 [2026-11-02] what was"]


class TestChannel:
    def test_short_term_uses_all_messages(self, endpoint: FakeEndpoint) -> None:
        """短期記憶（全メッセージ使用）: top level and every thread."""
        endpoint.reply_with("- a [1]")
        lines = [
            *messages("top"),
            *messages("in one", first=2, thread="1.000001"),
            *messages("in another", first=3, thread="2.000001"),
        ]
        llm.summarise(short(lines), endpoint.summariser())
        assert [line.split(": ")[1] for line in block(endpoint.prompt()[1], "messages")] == [
            "top", "in one", "in another",
        ]  # fmt: skip

    def test_long_term_merges_short_terms(self, endpoint: FakeEndpoint) -> None:
        """長期記憶（短期記憶をマージ）. The seed merges the newest short-term memory; rule 5 each
        that is not merged yet, oldest first."""
        endpoint.reply_with("- all [1, 2, 3]")
        additions = [
            *added("older", title="1 Nov", first=2),
            *added("newer", title="2 Nov", first=3),
        ]
        reply = llm.summarise(
            long(existing=memory("long ago"), additions=additions), endpoint.summariser()
        )
        user = endpoint.prompt()[1]
        assert reply.text == "- all [1, 2, 3]"
        assert block(user, "existing memory") == ["1 [2026-11-02] long ago"]
        assert block(user, "added: 1 Nov") == ["2 older"]
        assert block(user, "added: 2 Nov") == ["3 newer"]
        assert user.index("older") < user.index("newer")

    @pytest.mark.parametrize("kind", MemoryType)
    def test_workspace_memory_is_background(self, endpoint: FakeEndpoint, kind: MemoryType) -> None:
        """補助情報"""
        endpoint.reply_with("- a [1]")
        request = {
            MemoryType.SHORT_TERM: short(messages("hello"), references=[WORKSPACE]),
            MemoryType.LONG_TERM: long(additions=added("news"), references=[WORKSPACE]),
        }[kind]
        llm.summarise(request, endpoint.summariser())
        assert block(endpoint.prompt()[1], "reference: workspace memory") == [WORKSPACE.text]

    @pytest.mark.parametrize(
        ("summary_request", "text"),
        [
            (short(), ""),
            (short(messages(" ", "\n")), ""),
            (long(), ""),
            (long(additions=added()), ""),
            (long(existing=memory("kept", "too")), "- kept [1]\n- too [2]"),
        ],
        ids=["no messages", "blank messages", "nothing", "empty short-term", "existing"],
    )
    def test_empty_content(
        self, endpoint: FakeEndpoint, summary_request: Request, text: str
    ) -> None:
        """空コンテンツ: the existing memory or "". Rule 8 adds that this "" is never saved."""
        reply = llm.summarise(summary_request, endpoint.summariser())
        assert (reply.text, reply.calls) == (text, 0)
        assert endpoint.server.log == []


class TestWorkspace:
    def test_short_term_joins_channels(self, endpoint: FakeEndpoint) -> None:
        """短期記憶統合"""
        endpoint.reply_with("- both [1, 2]")
        additions = [*added("one now", title="#one"), *added("two now", title="#two", first=2)]
        llm.summarise(workspace(MemoryType.SHORT_TERM, additions=additions), endpoint.summariser())
        system, user = endpoint.prompt()
        assert block(user, "added: #one") == ["1 [2026-11-02] one now"]
        assert block(user, "added: #two") == ["2 [2026-11-02] two now"]
        assert user.partition("\n\n")[0].count("<<") == 4
        assert "existing" not in system + user

    def test_long_term_joins_channels_into_existing(self, endpoint: FakeEndpoint) -> None:
        """長期記憶統合"""
        endpoint.reply_with("- both [1, 2]")
        llm.summarise(
            workspace(
                MemoryType.LONG_TERM,
                existing=memory("so far"),
                additions=added("one's story", title="#one", first=2),
            ),
            endpoint.summariser(),
        )
        user = endpoint.prompt()[1]
        assert block(user, "existing memory") == ["1 [2026-11-02] so far"]
        assert block(user, "added: #one") == ["2 [2026-11-02] one's story"]
        assert user.partition("\n\n")[0].count("<<") == 4

    @pytest.mark.parametrize("kind", MemoryType)
    def test_no_background(self, endpoint: FakeEndpoint, kind: MemoryType) -> None:
        """補助情報なし: the workspace is the widest scope, so references are ignored."""
        endpoint.reply_with("- a [1]")
        request = workspace(kind, additions=added("news"), references=[WORKSPACE])
        llm.summarise(request, endpoint.summariser())
        system, user = endpoint.prompt()
        assert "reference" not in (system + user).lower()
        assert WORKSPACE.text not in user

    @pytest.mark.parametrize(
        ("summary_request", "text"),
        [
            (workspace(MemoryType.SHORT_TERM), ""),
            (workspace(MemoryType.LONG_TERM), ""),
            (workspace(MemoryType.LONG_TERM, existing=memory("so far")), "- so far [1]"),
        ],
        ids=["short", "long", "long with existing"],
    )
    def test_no_channel_memories(
        self, endpoint: FakeEndpoint, summary_request: Request, text: str
    ) -> None:
        """チャンネル記憶なし"""
        reply = llm.summarise(summary_request, endpoint.summariser())
        assert (reply.text, reply.calls) == (text, 0)
        assert endpoint.server.log == []


@pytest.mark.parametrize(
    ("summary_request", "limit"),
    [
        (short(messages("hello"), max_tokens=300), 300),
        (long(additions=added("news"), max_tokens=500), 500),
    ],
    ids=["short", "long"],
)
def test_token_limits_are_separate(
    endpoint: FakeEndpoint, summary_request: Request, limit: int
) -> None:
    """トークン制限: as a parameter and in the instructions."""
    endpoint.reply_with("- a [1]")
    llm.summarise(summary_request, endpoint.summariser())
    assert endpoint.requests[0]["max_tokens"] == limit
    assert str(limit) in endpoint.prompt()[1]


def test_a_failed_call_raises(endpoint: FakeEndpoint) -> None:
    """エラーハンドリング: the caller handles it."""
    endpoint.fail_with(500)
    with pytest.raises(llm.SummariserError):
        llm.summarise(short(messages("hello")), endpoint.summariser())
