"""Convert the text of the demo's conversations to Slack's markup and rich_text blocks."""

import re
from collections.abc import Mapping
from typing import Any

from memories.rules.ingest.markup import escape

_CODE = re.compile(r"(```.+?```|`[^`\n]+`)", re.DOTALL)
_TOKEN = re.compile(
    r"\[(?P<label>[^\]\n]+)\]\((?P<target>https?://[^)\s]+)\)"
    r"|(?<![\w.])@(?P<person>[a-z]+)"
    r"|(?<!\w)#(?P<channel>[\w-]+)"
    r"|(?<![\w:]):(?P<emoji>[a-z0-9_+-]+(?:::skin-tone-[2-6])?):"
    r"|(?<![\w*])\*(?P<bold>[^*\n]+)\*(?![\w*])"
)
_BROADCASTS = ("here", "channel", "everyone")

Element = dict[str, Any]


class UnknownName(ValueError):
    """An `@name` that is no key of `[people]` in people.toml."""


class Markup:
    """A converter with the ids of people by their key, and of public channels by their name."""

    def __init__(self, people: Mapping[str, str], channels: Mapping[str, str]) -> None:
        self.people = people
        self.channels = channels

    def text(self, written: str) -> str:
        """Return the `text` of a message. Raise ``UnknownName`` for an unknown `@name`."""
        parts: list[str] = []
        for piece in _CODE.split(written):
            if piece.startswith("`"):
                parts.append(escape(piece))
                continue
            end = 0
            for match in _TOKEN.finditer(piece):
                parts += [escape(piece[end : match.start()]), self._text_token(match)]
                end = match.end()
            parts.append(escape(piece[end:]))
        return "".join(parts)

    def blocks(self, written: str, block_id: str) -> list[Element]:
        """Return one rich_text block, as Slack's editor sends it."""
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

    def _text_token(self, match: re.Match[str]) -> str:
        if match["target"]:
            return f"<{match['target']}|{escape(match['label'])}>"
        if match["person"]:
            name = match["person"]
            return f"<!{name}>" if name in _BROADCASTS else f"<@{self._person(name)}>"
        if match["channel"] in self.channels:
            return f"<#{self.channels[match['channel']]}|{match['channel']}>"
        if match["bold"]:
            return f"*{self.text(match['bold'])}*"
        return escape(match[0])

    def _elements(self, written: str) -> list[Element]:
        elements: list[Element] = []
        for piece in _CODE.split(written):
            if piece.startswith("```"):
                inner = {"type": "text", "text": piece[3:-3].strip("\n")}
                elements.append(
                    {"type": "rich_text_preformatted", "elements": [inner], "border": 0}
                )
            elif piece.startswith("`"):
                elements.append({"type": "text", "text": piece[1:-1], "style": {"code": True}})
            else:
                end = 0
                for match in _TOKEN.finditer(piece):
                    if match.start() > end:
                        elements.append({"type": "text", "text": piece[end : match.start()]})
                    elements += self._element_token(match)
                    end = match.end()
                if piece[end:]:
                    elements.append({"type": "text", "text": piece[end:]})
        return elements

    def _element_token(self, match: re.Match[str]) -> list[Element]:
        if match["target"]:
            return [{"type": "link", "url": match["target"], "text": match["label"]}]
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
