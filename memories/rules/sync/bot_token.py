"""Bot tokens of Slack apps, and why other tokens are refused."""

import re

_MAX_LENGTH = 500
_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{5,400}")
_PREFIXES = {"xoxe": "rotating", "xoxp-": "person", "xapp-": "app"}
_SENTENCES = {
    "empty": "There is no token.",
    "person": "This is a person's token (xoxp-…). The bot token begins with xoxb-.",
    "app": "This is an app-level token (xapp-…). The bot token begins with xoxb-.",
    "rotating": "This token ends after twelve hours: switch token rotation off in the app.",
    "unknown": "This is no bot token: it begins with xoxb- and has letters, digits and hyphens.",
}


class InvalidBotToken(ValueError):
    """``code`` is empty, person, app, rotating or unknown. No message repeats the text, which may
    be a secret."""

    def __init__(self, code: str) -> None:
        super().__init__(_SENTENCES[code])
        self.code = code


def parse_bot_token(text: str) -> str:
    """Return the token without surrounding space. Raises `InvalidBotToken`."""
    token = text.strip()[:_MAX_LENGTH]
    if not token:
        raise InvalidBotToken("empty")
    for prefix, code in _PREFIXES.items():
        if token.startswith(prefix):
            raise InvalidBotToken(code)
    if not _BOT_TOKEN.fullmatch(token):
        raise InvalidBotToken("unknown")
    return token
