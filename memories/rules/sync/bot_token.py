"""Bot tokens of Slack apps, and why other tokens are refused."""

import re

_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{5,400}")
_PREFIXES = {"xoxe": "rotating", "xoxp-": "person", "xapp-": "app"}
_SENTENCES = {
    "empty": "No token is set.",
    "person": "This is a user token (xoxp-…). A bot token begins with xoxb-.",
    "app": "This is an app-level token (xapp-…). A bot token begins with xoxb-.",
    "rotating": "This token expires after twelve hours. Turn off token rotation in the app.",
    "unknown": "This is not a bot token. A bot token begins with xoxb-.",
}


class InvalidBotToken(ValueError):
    """``code`` is empty, person, app, rotating or unknown. No message repeats the text, which may
    be a secret."""

    def __init__(self, code: str) -> None:
        super().__init__(_SENTENCES[code])
        self.code = code


def parse_bot_token(text: str) -> str:
    """Return the token without surrounding space. Raises `InvalidBotToken`."""
    token = text.strip()
    if not token:
        raise InvalidBotToken("empty")
    for prefix, code in _PREFIXES.items():
        if token.startswith(prefix):
            raise InvalidBotToken(code)
    if not _BOT_TOKEN.fullmatch(token):
        raise InvalidBotToken("unknown")
    return token
