"""The text of a message from its ``text``, blocks, attachments and files.

The result is in Slack's own markup; `rules.ingest.markup` makes it readable. Elements of an
unsupported type leave a mark. Every value may have any type.
"""

from collections.abc import Iterable
from typing import Any

from memories.rules.ingest.markup import escape
from memories.rules.json_values import as_dict, as_dicts, as_list, as_text

# Blocks that are nested deeper become "[…]".
_DEEPEST = 12


def message_text(raw: dict[str, Any]) -> str:
    """Return the text, else the blocks, else an old file comment; then attachments and files.

    An unfurled link adds nothing: its text is another page's.
    """
    text = as_text(raw.get("text"))
    if not text.strip():
        text = _join(_block(block, 0) for block in as_list(raw.get("blocks")))
    if not text:
        text = as_text(as_dict(raw.get("comment")).get("comment"))
    extra = [
        *(
            _attachment(item)
            for item in as_dicts(raw.get("attachments"))
            if not _is_unfurl(item, text)
        ),
        *(_file(item) for item in as_dicts(raw.get("files"))),
    ]
    if not raw.get("files") and isinstance(raw.get("file"), dict):
        extra.append(_file(raw["file"]))
    if text and not any(extra):
        return text
    return _join([text, *extra])


def _join(parts: Iterable[str], separator: str = "\n") -> str:
    return separator.join(part for part in parts if part.strip())


# Blocks


def _block(block: object, depth: int) -> str:
    block = as_dict(block)
    kind = as_text(block.get("type"))
    if depth > _DEEPEST:
        return "[…]"
    if kind == "rich_text":
        return _join(_rich_text(item, depth + 1) for item in as_dicts(block.get("elements")))
    if kind in ("section", "header"):
        fields = (_text_object(item) for item in as_dicts(block.get("fields")))
        return _join([_text_object(block.get("text")), *fields])
    if kind == "context":
        return _join((_context_element(item) for item in as_dicts(block.get("elements"))), " ")
    if kind in ("image", "video"):
        return f"[{kind}: {_text_object(block.get('title')) or escape(as_text(block.get('alt_text')))}]"
    if kind == "actions":
        return _join(
            (f"[{_text_object(item.get('text'))}]" for item in as_dicts(block.get("elements"))), " "
        )
    if kind == "markdown":
        return escape(as_text(block.get("text")))
    if kind == "divider":
        return ""
    name = escape(kind) or "block"
    fallback = _text_object(block.get("text")) or escape(as_text(block.get("fallback")))
    return f"[unsupported: {name}] {fallback}".strip()


def _text_object(text: object) -> str:
    """Return the markup of a text object; ``plain_text`` is escaped."""
    if isinstance(text, str):
        return text
    text = as_dict(text)
    words = as_text(text.get("text"))
    if text.get("type") == "mrkdwn":
        return words
    return words.replace("<", "&lt;").replace(">", "&gt;")


def _context_element(element: dict[str, Any]) -> str:
    if element.get("type") == "image":
        return f"[image: {escape(as_text(element.get('alt_text')))}]"
    return _text_object(element)


def _rich_text(element: dict[str, Any], depth: int) -> str:
    kind = element.get("type")
    items = as_list(element.get("elements"))
    if depth > _DEEPEST:
        return "[…]"
    if kind == "rich_text_list":
        ordered = element.get("style") == "ordered"
        indent = element.get("indent")
        margin = "    " * (min(indent, 8) if isinstance(indent, int) and indent > 0 else 0)
        return "\n".join(
            f"{margin}{f'{number}.' if ordered else '•'} {_rich_text(item, depth + 1)}"
            for number, item in enumerate(as_dicts(items), 1)
        )
    words = "".join(
        _rich_text(item, depth + 1)
        if isinstance(item.get("elements"), list)
        else _rich_text_leaf(item)
        for item in as_dicts(items)
    )
    if kind == "rich_text_quote":
        return "\n".join(f"&gt; {line}" for line in words.split("\n"))
    if kind == "rich_text_preformatted":
        return f"```{words}```"
    if kind == "rich_text_section" or words:
        return words
    return f"[unsupported: {escape(as_text(kind)) or 'element'}]"


def _rich_text_leaf(item: dict[str, Any]) -> str:
    kind = as_text(item.get("type"))
    if kind == "text":
        words = escape(as_text(item.get("text")))
        code = as_dict(item.get("style")).get("code") is True and words.strip() and "`" not in words
        return f"`{words}`" if code else words
    if kind == "link":
        address = escape(as_text(item.get("url"))).replace("|", "%7C")
        label = escape(as_text(item.get("text")))
        return f"<{address}|{label}>" if label else f"<{address}>"
    if kind == "user":
        return f"<@{as_text(item.get('user_id'))}>"
    if kind == "channel":
        return f"<#{as_text(item.get('channel_id'))}>"
    if kind == "usergroup":
        return f"<!subteam^{as_text(item.get('usergroup_id'))}>"
    if kind == "broadcast":
        return f"<!{as_text(item.get('range'))}>"
    if kind == "emoji":
        tone = item.get("skin_tone")
        tail = f":skin-tone-{tone}:" if isinstance(tone, int) and 2 <= tone <= 6 else ""
        return f":{as_text(item.get('name'))}:{tail}"
    if kind in ("date", "color", "team"):
        return escape(as_text(item.get("fallback")) or as_text(item.get("value")))
    fallback = escape(as_text(item.get("text")) or as_text(item.get("fallback")))
    return fallback or f"[unsupported: {escape(kind) or 'element'}]"


# Attachments and files


def _is_unfurl(item: dict[str, Any], text: str) -> bool:
    """Return whether it is a preview of a link or a message, beside a text."""
    preview = item.get("from_url") or item.get("original_url") or item.get("is_msg_unfurl")
    return bool(preview) and bool(text.strip())


def _attachment(item: dict[str, Any]) -> str:
    fields = (
        _join((as_text(field.get("title")), as_text(field.get("value"))), ": ")
        for field in as_dicts(item.get("fields"))
    )
    text = _join(
        [
            as_text(item.get("pretext")),
            as_text(item.get("title")),
            as_text(item.get("text")),
            *fields,
            *(_block(block, 1) for block in as_list(item.get("blocks"))),
        ]
    )
    return text or as_text(item.get("fallback"))


_UNAVAILABLE = {
    "tombstone": "deleted",
    "hidden_by_limit": "hidden by the plan's limit",
    "access_denied": "no access",
    "file_not_found": "not found",
    "external": "kept elsewhere",
}


def _file(item: dict[str, Any]) -> str:
    """Return a file's name in brackets. The file itself is never fetched."""
    name = escape(as_text(item.get("title")) or as_text(item.get("name"))) or "unnamed"
    reason = _UNAVAILABLE.get(as_text(item.get("mode"))) or _UNAVAILABLE.get(
        as_text(item.get("file_access"))
    )
    if reason is None and item.get("is_external") is True:
        reason = _UNAVAILABLE["external"]
    return f"[file: {name} ({reason})]" if reason else f"[file: {name}]"
