"""Keyboard shortcuts, in the order of the help.

Templates add them to controls (``{% key %}``, ``{% steps %}``). app.js contains no key.
"""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

KEYS: dict[str, Promise] = {
    "/": _("Search"),
    "j": _("Next item"),
    "k": _("Previous item"),
    "Enter": _("Open the item"),
    "e": _("Edit"),
    "m": _("Mark as seen"),
    "d": _("Compare with the previous version"),
    "[": _("Older version"),
    "]": _("Newer version"),
    "n": _("Next change"),
    "p": _("Previous change"),
    "g h": _("Go to: catch up"),
    "g c": _("Go to: context"),
    "g n": _("Go to: notes"),
    "g j": _("Go to: jobs"),
    "?": _("Keyboard shortcuts"),
    "Escape": _("Leave"),
}
