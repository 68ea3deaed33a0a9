"""Bot tokens are accepted, other tokens are refused with a reason."""

import pytest

from memories.rules.sync.bot_token import InvalidBotToken, parse_bot_token


def test_surrounding_space_is_removed() -> None:
    assert parse_bot_token(" xoxb-12-34-AbC\n") == "xoxb-12-34-AbC"


@pytest.mark.parametrize(
    ("text", "code"),
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
def test_invalid_tokens_are_refused_and_not_repeated(text: str, code: str) -> None:
    with pytest.raises(InvalidBotToken) as refused:
        parse_bot_token(text)
    assert refused.value.code == code
    assert len(text.strip()) < 6 or text.strip() not in str(refused.value)
