"""Refusals of files that are no export: a code, a sentence with a remedy, and its values.

Code and values are stored, so that a page shows the sentence in its reader's language.
"""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

SENTENCES: dict[str, Promise] = {
    "absent": _("There is no %(name)s."),
    "unreadable": _("%(name)s cannot be read: %(why)s."),
    "other_file": _("%(name)s is neither a zip file nor a folder."),
    "no_zip": _("%(name)s is neither a zip file nor a folder. Unpack it first."),
    "damaged": _("%(name)s is damaged, or not a zip file."),
    "slackdump": _(
        "This is slackdump's %(form)s, not an export. Make one of it first:"
        " slackdump convert -f export -o export.zip %(name)s"
    ),
    "zip_inside": _("%(name)s holds another zip file. Take it out, and give that one."),
    "nothing_inside": _(
        "%(name)s holds neither lists of channels nor files of days. Give the zip file that Slack"
        " made, or the folder it was unpacked to."
    ),
    "several_teams": _(
        "%(name)s holds %(n)s teams of an organisation. Give the export of one team, each to a"
        " workspace of its own."
    ),
    "many_files": _("%(name)s holds more than %(n)s files. Give it in parts."),
    "leads_out": _(
        "%(name)s names a place outside of itself (%(file)s). Unpack it yourself, look at what it"
        " holds, and give the folder."
    ),
    "link": _(
        "%(name)s holds a link or a device (%(file)s). Unpack it yourself, look at what it holds,"
        " and give the folder."
    ),
    "same_name": _(
        "%(name)s holds two files of one name (%(file)s). Unpack it yourself, look at what it"
        " holds, and give the folder."
    ),
    "overlap": _("%(name)s holds files that lie over each other."),
    "password": _("%(name)s is protected by a password. Unpack it, and give the folder."),
    "unpacks_to_more": _(
        "%(name)s unpacks to far more than an export of its size may. Unpack it yourself, look at"
        " what it holds, and give the folder."
    ),
}


class NotAnExport(Exception):
    """The path is no export that can be read; the text says why and names a remedy."""

    def __init__(self, code: str, **values: str) -> None:
        super().__init__(refusal_sentence(code, values))
        self.code, self.values = code, values


def refusal_sentence(code: str, values: Mapping[str, str]) -> str:
    """Return the sentence of a code in the current language."""
    return str(SENTENCES[code]) % values
