from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.rules.context.contents import Context, assemble
from memories.rules.context.material import (
    LONG_TERM,
    SHORT_TERM,
    THREAD,
    LineFacts,
    Material,
    MemoryText,
    MessageLine,
)
from memories.rules.ingest.timestamps import HOUR
from memories.rules.memory.lines import split_text
from memories.rules.settings import MemorySettings
from memories.rules.tokens import estimate_tokens
from tests.rules.context.test_contents import FULL, NINE, PLACES, note, version, with_memory

CHANNEL = Material(settings=MemorySettings(), channel_id="C1", channels={"C1": "a"})


def day(number: int, text: str, channel_id: str = "C1") -> MessageLine:
    line = f"[2026-01-{number:02d} 09:00] Aki: {text}"
    return MessageLine(NINE + number * 24 * HOUR, line, channel_id=channel_id)


CHAT = "thanks everybody, see you"
FACTS = [
    "the launch moves to 26 November because of the audit",
    "the Osaka office pays 4,200 euro for the new router",
    "Mika writes the release notes until Friday",
    "support answers within 3 hours from now on",
]


class TestBudget:
    def test_material_within_the_budget_is_whole(self):
        whole = assemble(FULL)
        assert assemble(FULL, whole.tokens) == whole
        earlier = replace(FULL, earlier=[replace(day(1, CHAT), micros=0)])
        assert assemble(earlier) == whole
        assert "## #general\n### 2026-01-01\n[09:00] Aki: thanks" in assemble(earlier, 500).text

    def test_informative_messages_come_before_small_talk(self):
        messages = [day(n, CHAT if n % 3 else FACTS[n // 3 - 1]) for n in range(1, 13)]
        material = replace(CHANNEL, earlier=messages)
        context = assemble(material, 150)
        assert context.tokens <= 150
        assert all(fact in context.text for fact in FACTS)
        assert context.earlier_messages == [
            m.line for m in messages if m.line in context.earlier_messages
        ]

    def test_a_newer_message_with_another_figure_replaces_the_older(self):
        messages = [
            day(1, FACTS[0]),
            day(2, FACTS[0].replace("26", "27")),
            *(day(3, x) for x in FACTS),
        ]
        messages = messages[:2] + messages[3:]  # the first fact is not repeated
        filler = [day(4, f"{word} talks about {word} again") for word in ("one", "two", "three")]
        material = replace(CHANNEL, earlier=[*messages, *filler])
        text = assemble(material, 110).text
        assert "27 November" in text
        assert "26 November" not in text

    def test_protected_lines_come_first(self):
        lines = [f"- status {n} of the migration, ticket {n}{n}" for n in range(40)]
        material = replace(
            with_memory(MemoryText(LONG_TERM, "\n".join(lines))),
            facts={"status 0 of the migration, ticket 00": LineFacts(0, is_protected=True)},
        )
        context = assemble(material, 150)
        assert lines[0] in context.text
        assert context.tokens <= 150
        [left] = [x for x in context.left_out if (x.what, x.id) == ("long_term_memory", "")]
        assert left.count == 40 - context.workspace_long_term_memory.count("\n") - 1
        assert left.reason == "over the budget of 150 tokens"

    def test_the_question_comes_first(self):
        messages = [day(n, fact) for n, fact in enumerate(FACTS * 3, 1)]
        messages = [replace(m, line=f"{m.line} ({m.micros})") for m in messages]
        answer = day(1, "the router of the lobby was sold", "C2")
        memories = [memory for memory in FULL.memories if memory.kind != THREAD]
        material = replace(
            FULL, notes=(), memories=memories, messages=(), earlier=[answer, *messages]
        )
        text = assemble(replace(material, question="Who sold the router in the lobby?"), 100).text
        assert "## #dev, earlier\n### 2026-01-01\n[09:00] Aki: the router of the lobby" in text
        assert "lobby" not in assemble(material, 100).text

    @pytest.mark.parametrize("place", ["persona", "long-term memory", "history", "message"])
    def test_an_oversized_text_does_not_crowd_out_other_texts(self, place):
        long = " ".join(f"word{n}" for n in range(2_000))
        context = assemble(PLACES[place](long), 600)
        assert context.tokens <= 600
        assert "characters left out]" in context.text
        # The line that replaces another's place is the long one; everything else is there.
        others = [
            "- general decides",
            "Never on Fridays",
            "Aki: last",
            "- the team ships on Fridays",
        ]
        assert sum(words in context.text for words in others) >= 3

    def test_only_the_text_obeys_the_default_budget(self):
        context = assemble(FULL, 60, whole=FULL)
        assert context.tokens == estimate_tokens(context.text) <= 60
        assert context.left_out
        assert context.channel_memories == assemble(FULL).channel_memories
        assert context.conversation_history == assemble(FULL).conversation_history

    def test_the_persona_stays(self):
        context = assemble(FULL, 1)
        assert context.text == context.persona == FULL.persona
        assert {x.what: x.count for x in context.left_out if x.id in ("C1", "1", "2")} == {
            "note": 1,
            "long_term_memory": 1,
            "short_term_memory": 2,
            "message": 3,
        }


TEXTS = st.text("ab #-\n記", min_size=1, max_size=40)
HISTORIES = st.lists(st.tuples(st.integers(0, 9), TEXTS), max_size=4)


@st.composite
def materials(draw: st.DrawFn) -> Material:
    ids = [f"C{n}" for n in draw(st.lists(st.integers(1, 9), max_size=4, unique=True))]
    memories = [MemoryText(LONG_TERM, text) for text in draw(st.lists(TEXTS, max_size=1))]
    for place in ids:
        memories += [
            MemoryText(LONG_TERM, text, place) for text in draw(st.lists(TEXTS, max_size=1))
        ]
        memories += [
            version(n, text, hours, scope_key=place)
            for n, (hours, text) in enumerate(draw(HISTORIES), start=1)
        ]
    memories += [
        version(n + 1, draw(TEXTS), scope_key=f"{n}.000100", kind=THREAD)
        for n in range(draw(st.integers(0, 2)))
    ]
    channel_id = draw(st.sampled_from(["", *ids]))
    lines = draw(st.lists(TEXTS, max_size=5)) if channel_id else []
    return Material(
        settings=MemorySettings(),
        persona=draw(st.sampled_from(["", "You are Momo."])),
        channel_id=channel_id,
        channels={place: f"name{place}" for place in ids},
        memories=memories,
        messages=[MessageLine(n, f"[2026-01-05 18:00] A: {line}") for n, line in enumerate(lines)],
        notes=[note(n, f"note {n}") for n in range(draw(st.integers(0, 3)))],
        earlier=[day(n + 1, text, channel_id) for n, text in enumerate(lines)],
        question=draw(st.sampled_from(["", "note 記"])),
    )


@pytest.mark.slow
@given(materials(), st.integers(1, 150))
def test_context_order_and_budget(material: Material, budget: int):
    whole, fitted = assemble(material), assemble(material, budget)
    for context in (whole, fitted):
        assert context.tokens == estimate_tokens(context.text)
        assert set(context.channel_memories) == set(material.channels)
        if material.channel_id:
            assert next(iter(context.channel_memories)) == material.channel_id
        for channel in context.channel_memories.values():
            history = channel.short_term_memory_history
            assert channel.short_term_memory == (history[-1] if history else None)
    for key, channel in whole.channel_memories.items():
        history = [x for x in material.memories if (x.kind, x.scope_key) == (SHORT_TERM, key)]
        in_order = sorted(history, key=lambda v: (v.until_us, v.number))
        assert channel.short_term_memory_history == [v.content for v in in_order]
    assert fitted.persona == material.persona
    assert fitted.tokens <= max(budget, estimate_tokens(material.persona))
    # The fitted context keeps the order of the whole. With what it left out it is everything.
    assert is_within(fitted.conversation_history, whole.conversation_history)
    assert is_within(fitted.notes, whole.notes)
    if fitted.text != whole.text:
        left_out = sum(item.count for item in fitted.left_out)
        assert pieces(whole) == pieces(fitted) + left_out


def is_within(part: list, whole: list) -> bool:
    remaining = iter(whole)
    return all(item in remaining for item in part)


def pieces(context: Context) -> int:
    """Lines of memories, notes and messages of the conversation."""
    channels = list(context.channel_memories.values())
    texts = [
        context.workspace_long_term_memory,
        *(c.long_term_memory for c in channels),
        *(text for c in channels for text in c.short_term_memory_history),
        *context.thread_memories.values(),
    ]
    lines = sum(len(split_text(text or "")) for text in texts)
    return lines + len(context.notes) + len(context.conversation_history)
