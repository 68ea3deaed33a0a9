"""Characters that a person does not see but a machine reads.

They reorder or hide text: bidirectional overrides, the tag block, stray variation selectors,
control characters. The raw message keeps them, a model never gets them, people are shown a mark.
What writing needs stays: joiners, the tag sequences of flags, one variation selector after a
character, ideographic variants.
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
# Characters without a shape. `clean` keeps some of them, which writing needs: joiners, variants.
SHAPELESS = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef"
)
_RULE = re.compile(f"(?P<hidden>{_HIDDEN})|{_KEPT}")
_MAYBE = re.compile(_HIDDEN)


def clean(text: str) -> str:
    """Without invisible characters, for models. Line breaks and tabs stay."""
    if not _MAYBE.search(text):
        return text
    return _RULE.sub(lambda match: "" if match["hidden"] else match[0], text)


def marked(text: str) -> str:
    """With a visible mark such as ``⟦U+202E⟧`` where something is hidden, for people."""
    if not _MAYBE.search(text):
        return text
    return _RULE.sub(lambda match: _mark(match["hidden"]) if match["hidden"] else match[0], text)


def _mark(hidden: str) -> str:
    times = f" ×{len(hidden)}" if len(hidden) > 1 else ""
    return f"⟦U+{ord(hidden[0]):04X}{times}⟧"
