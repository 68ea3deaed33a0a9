"""What the demo's context holds of right answers to the demo's questions (`make quality`)."""

import pytest

from bench.quality import ASKED, OURS, ask_demo, current_lines, demo_questions
from memories.models import Line


def test_the_questions_are_of_both_languages_and_about_what_changed() -> None:
    questions = demo_questions()
    assert sum(bool(question.old) for question in questions) >= 8
    assert [sum(q.group == language for q in questions) for language in ("en", "ja")] == [20, 20]
    assert all(question.strings for question in questions)


def test_what_is_history_or_replaced_does_not_hold_now() -> None:
    text = (
        "# Long-term memory\n\n## #launch\n### Now\n- (2026-11-02) a\n### History\n- (2026-11-01) b\n\n"
        "# Short-term memory\n\n## #launch\n### Version 1\n- c (replaced)\n- d\n\n# Conversation\n[09:00] e"
    )
    assert [line for line in current_lines(text) if line] == ["- (2026-11-02) a", "- d"]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.django_db
def test_a_context_holds_the_answers() -> None:
    scores = ask_demo(budgets=[2_000])
    for language in ("en", "ja"):
        plain, asked = scores[language, 2_000, OURS], scores[language, 2_000, ASKED]
        assert plain.hit_rate >= 0.9, plain.missed
        assert asked.hit_rate == 1.0, asked.missed
        assert not plain.outdated + asked.outdated
    replaced = Line.objects.filter(fate=Line.Fate.SUPERSEDED, text__contains="Kazoe 3 launches on")
    assert replaced.filter(version__memory__memory_type="long_term").exists()
