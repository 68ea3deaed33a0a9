"""Render texts of people and models as HTML. Everything is escaped."""

import re
from collections.abc import Iterable
from dataclasses import replace

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from memories.rules.ingest import markup
from memories.views import paths
from memories.views.access.access import WorkspaceAccess

_JAPANESE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f]")
_CODE = re.compile(r"`([^`\n]+)`")
_BOLD = re.compile(r"(?<![\w*])(\*\*?)(?=[^\s*])([^*]+)(?<=\S)\1(?![\w*])")
_STYLES = {"*": mark_safe("strong"), "_": mark_safe("em"), "~": mark_safe("s")}


def text_lang(text: str) -> str:
    """Return a value for ``lang``: ja by its script, en for ASCII, otherwise empty."""
    if _JAPANESE.search(text):
        return "ja"
    return "en" if text.isascii() else ""


def in_its_language(text: str) -> SafeString:
    """Mark the language of a text inside a sentence of the interface."""
    return format_html('<span lang="{}">{}</span>', text_lang(text), text)


def with_words(sentence: str, **words: str) -> SafeString:
    """Fill texts of people into a sentence of the interface, each with its language."""
    marked = {name: in_its_language(text) for name, text in words.items()}
    return mark_safe(escape(sentence) % marked)  # noqa: S308  # every part is escaped


def line_text(text: str) -> SafeString:
    """Render a line of a memory, with `code` and *bold* words."""
    parts = _CODE.split(text)
    html = (
        format_html("<code>{}</code>", part) if i % 2 else _emphasised(part)
        for i, part in enumerate(parts)
    )
    return mark_safe("".join(html))  # noqa: S308  # every part is escaped


def _emphasised(text: str) -> SafeString:
    """Render *bold* words, also as **bold**, which models write."""
    return mark_safe(_BOLD.sub(r"<strong>\2</strong>", str(escape(text))))  # noqa: S308  # escaped


def message_text(tokens: Iterable[markup.Token], access: WorkspaceAccess) -> SafeString:
    """Render the tokens of a message. Quotations are grouped, and links send no referrer."""
    html: list[SafeString] = []
    quoted: list[SafeString] = []

    def close() -> None:
        if quoted:
            html.append(format_html("<blockquote>{}</blockquote>", mark_safe("".join(quoted))))  # noqa: S308
            quoted.clear()

    is_after_block = False
    for token in tokens:
        if is_after_block and token.kind is markup.Kind.TEXT:
            # A block already ends its line.
            token = replace(token, text=token.text.removeprefix("\n"))
        is_after_block = token.kind is markup.Kind.CODE_BLOCK
        if token.quoted:
            quoted.append(_render_token(token, access))
            continue
        if quoted and token.kind is markup.Kind.TEXT:
            token = replace(token, text=token.text.removeprefix("\n"))
        close()
        html.append(_render_token(token, access))
    close()
    return mark_safe("".join(html))  # noqa: S308  # parts from format_html


def _render_token(token: markup.Token, access: WorkspaceAccess) -> SafeString:
    """Render a token with its styles."""
    html = _render_without_style(token, access)
    for mark in token.style:
        tag = _STYLES[mark]
        html = format_html("<{}>{}</{}>", tag, html, tag)
    return html


def _render_without_style(token: markup.Token, access: WorkspaceAccess) -> SafeString:
    kind = token.kind
    if kind is markup.Kind.LINK:
        return format_html(
            '<a href="{}" rel="noopener noreferrer nofollow">{}</a>', token.ref, token.text
        )
    if kind is markup.Kind.CHANNEL and (
        channel := access.find_channels([token.ref]).get(token.ref)
    ):
        path = paths.channel_path(access.workspace.slug, channel.slack_id)
        return format_html('<a class="mention" href="{}">{}</a>', path, token.text)
    if kind in (markup.Kind.PERSON, markup.Kind.CHANNEL, markup.Kind.SPECIAL):
        return format_html('<span class="mention">{}</span>', token.text)
    if kind is markup.Kind.CODE:
        return format_html("<code>{}</code>", token.text)
    if kind is markup.Kind.CODE_BLOCK:
        return format_html('<pre tabindex="0"><code>{}</code></pre>', token.text.strip("\n"))
    return escape(token.text)
