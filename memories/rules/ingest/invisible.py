"""Characters that a person does not see but a model reads.

They reorder or hide text: bidirectional overrides, the tag block, stray variation selectors and
control characters. The raw message keeps them. Models get the text without them, and pages show a
mark in their place. Joiners, the tag sequences of flags, one variation selector after a character
and ideographic variants stay, because scripts need them.
"""

import re

_KEPT = (
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"  # flags such as Wales
    "|[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff][\U000e0100-\U000e01ef]"  # kanji variants
    "|[^\ufe00-\ufe0f][\ufe00-\ufe0f]"
)
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u180e\u200b\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ef]+"
)
# Characters without a shape. `strip_invisible` keeps some of them: joiners and variant selectors.
SHAPELESS = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef"
)
_HIDDEN_OR_KEPT = re.compile(f"(?P<hidden>{_HIDDEN})|{_KEPT}")
_HIDDEN_RUN = re.compile(_HIDDEN)


def strip_invisible(text: str) -> str:
    """Remove invisible characters, for models. Line breaks and tabs stay."""
    if not _HIDDEN_RUN.search(text):
        return text
    return _HIDDEN_OR_KEPT.sub(lambda match: "" if match["hidden"] else match[0], text)


def mark_invisible(text: str) -> str:
    """Replace invisible characters by a mark such as ``⟦U+202E⟧``, for pages."""
    if not _HIDDEN_RUN.search(text):
        return text
    return _HIDDEN_OR_KEPT.sub(
        lambda match: _mark(match["hidden"]) if match["hidden"] else match[0], text
    )


def _mark(hidden: str) -> str:
    times = f" ×{len(hidden)}" if len(hidden) > 1 else ""
    return f"⟦U+{ord(hidden[0]):04X}{times}⟧"
