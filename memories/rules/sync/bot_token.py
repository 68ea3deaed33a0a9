"""What may serve as a workspace's token: a bot's, that lasts."""

import re

_BOT = re.compile(r"xoxb-[A-Za-z0-9-]{5,400}")
_LONGEST = 500


class NotABotToken(ValueError):
    """``code`` says what it is instead: empty, person, app, rotating, unknown. The text is in no
    message: it may be a secret all the same."""

    def __init__(self, code: str) -> None:
        super().__init__(_SENTENCES[code])
        self.code = code


_SENTENCES = {
    "empty": "There is no token.",
    "person": "This is a person's token (xoxp-…). The bot token begins with xoxb-.",
    "app": "This is an app-level token (xapp-…). The bot token begins with xoxb-.",
    "rotating": "This token ends after twelve hours: switch token rotation off in the app.",
    "unknown": "This is no bot token: it begins with xoxb- and has letters, digits and hyphens.",
}
_BEGINNINGS = {"xoxe": "rotating", "xoxp-": "person", "xapp-": "app"}


def read_bot_token(given: str) -> str:
    """The token in what was pasted or piped in; raises `NotABotToken`."""
    token = given.strip()[:_LONGEST]
    if not token:
        raise NotABotToken("empty")
    for beginning, code in _BEGINNINGS.items():
        if token.startswith(beginning):
            raise NotABotToken(code)
    if not _BOT.fullmatch(token):
        raise NotABotToken("unknown")
    return token
