"""From the scripts' hand-written text to Slack's: `text` with markup, and rich_text blocks."""

import re
from collections.abc import Callable, Mapping
from typing import Any

_CODE = re.compile(r"(```.+?```|`[^`\n]+`)", re.DOTALL)
_TOKEN = re.compile(
    r"\[(?P<label>[^\]\n]+)\]\((?P<target>https?://[^)\s]+)\)"
    r"|(?P<url>https?://[^\s)]+)"
    r"|(?<![\w.])@(?P<person>[a-z]+)"
    r"|(?<!\w)#(?P<channel>[\w-]+)"
    r"|(?<![\w:]):(?P<emoji>[a-z0-9_+-]+(?:::skin-tone-[2-6])?):"
    r"|(?<![\w*])\*(?P<bold>[^*\n]+)\*(?![\w*])"
)
_BROADCASTS = ("here", "channel", "everyone")

Element = dict[str, Any]


class UnknownName(ValueError):
    """An `@name` that is nobody in people.toml."""


def escaped(text: str) -> str:
    """Slack's three escapes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Markup:
    """Knows the ids of people and channels: `people` by key, `channels` by name."""

    def __init__(self, people: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.people = people
        self.channels = channels

    def text(self, written: str) -> str:
        """`written` as Slack's `text`. Raises UnknownName for an `@` that is nobody."""
        return self._each(written, escaped, self._text_token)

    def blocks(self, written: str, block_id: str) -> list[Element]:
        """`written` as one rich_text block, as Slack's own editor makes it."""
        parts: list[Element] = []
        section: list[Element] = []
        for element in self._elements(written):
            if element["type"] == "rich_text_preformatted":
                if section:
                    parts.append({"type": "rich_text_section", "elements": section})
                parts.append(element)
                section = []
            else:
                section.append(element)
        if section:
            parts.append({"type": "rich_text_section", "elements": section})
        return [{"type": "rich_text", "block_id": block_id, "elements": parts}]

    def _each(
        self, written: str, plain: Callable[[str], str], token: Callable[[re.Match[str]], str]
    ) -> str:
        out: list[str] = []
        for piece in _CODE.split(written):
            if piece.startswith("`"):
                out.append(plain(piece))
                continue
            end = 0
            for match in _TOKEN.finditer(piece):
                out += [plain(piece[end : match.start()]), token(match)]
                end = match.end()
            out.append(plain(piece[end:]))
        return "".join(out)

    def _text_token(self, match: re.Match[str]) -> str:
        if match["target"]:
            return f"<{match['target']}|{escaped(match['label'])}>"
        if match["url"]:
            return f"<{match['url']}>"
        if match["person"]:
            name = match["person"]
            return f"<!{name}>" if name in _BROADCASTS else f"<@{self._person(name)}>"
        if match["channel"] in self.channels:
            return f"<#{self.channels[match['channel']]}|{match['channel']}>"
        if match["bold"]:
            return f"*{self.text(match['bold'])}*"
        return escaped(match[0])

    def _elements(self, written: str) -> list[Element]:
        out: list[Element] = []
        for piece in _CODE.split(written):
            if piece.startswith("```"):
                inner = {"type": "text", "text": piece[3:-3].strip("\n")}
                out.append({"type": "rich_text_preformatted", "elements": [inner], "border": 0})
            elif piece.startswith("`"):
                out.append({"type": "text", "text": piece[1:-1], "style": {"code": True}})
            else:
                end = 0
                for match in _TOKEN.finditer(piece):
                    if match.start() > end:
                        out.append({"type": "text", "text": piece[end : match.start()]})
                    out += self._element_token(match)
                    end = match.end()
                if piece[end:]:
                    out.append({"type": "text", "text": piece[end:]})
        return out

    def _element_token(self, match: re.Match[str]) -> list[Element]:
        if match["target"]:
            return [{"type": "link", "url": match["target"], "text": match["label"]}]
        if match["url"]:
            return [{"type": "link", "url": match["url"]}]
        if match["person"]:
            name = match["person"]
            if name in _BROADCASTS:
                return [{"type": "broadcast", "range": name}]
            return [{"type": "user", "user_id": self._person(name)}]
        if match["channel"] in self.channels:
            return [{"type": "channel", "channel_id": self.channels[match["channel"]]}]
        if match["emoji"]:
            return [{"type": "emoji", "name": match["emoji"]}]
        if match["bold"]:
            inner = self._elements(match["bold"])
            return [e | {"style": {"bold": True}} if e["type"] == "text" else e for e in inner]
        return [{"type": "text", "text": match[0]}]

    def _person(self, name: str) -> str:
        if name not in self.people:
            raise UnknownName(f"@{name} is nobody in people.toml")
        return self.people[name]
