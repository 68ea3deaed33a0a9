"""What may serve as a workspace's token."""

import pytest

from memories.rules.sync.bot_token import NotABotToken, read_bot_token


def test_a_bots_token_without_what_came_around_it() -> None:
    assert read_bot_token(" xoxb-12-34-AbC\n") == "xoxb-12-34-AbC"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("xoxp-12-34-AbC", "person"),
        ("xapp-1-A1-12-ab", "app"),
        ("xoxe.xoxb-1-AbCdE", "rotating"),
        ("xoxe-1-AbCdE", "rotating"),
        ("hunter2", "unknown"),
        ("xoxb-", "unknown"),
        ("xoxb-12-34-AbC xoxb-12-34-AbC", "unknown"),
        ("xoxb-12-34-ébC", "unknown"),
        ("xoxb-" + "a" * 5000, "unknown"),
    ],
)
def test_anything_else_is_named_and_not_repeated(given: str, code: str) -> None:
    with pytest.raises(NotABotToken) as refused:
        read_bot_token(given)
    assert refused.value.code == code
    assert len(given.strip()) < 6 or given.strip() not in str(refused.value)
