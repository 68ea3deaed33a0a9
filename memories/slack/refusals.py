"""Refusals of files that are no export: a code, a sentence with a remedy, and its values.

Code and values are stored, so that a page shows the sentence in its reader's language.
"""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

SENTENCES: dict[str, Promise] = {
    "absent": _("%(name)s does not exist."),
    "unreadable": _("%(name)s cannot be read: %(why)s."),
    "other_file": _("%(name)s is not a zip file or a folder."),
    "no_zip": _("%(name)s is not a zip file or a folder. Unpack it first."),
    "damaged": _("%(name)s is damaged, or it is not a zip file."),
    "slackdump": _(
        "This is the %(form)s format of slackdump, not an export. Convert it first: "
        "slackdump convert -f export -o export.zip %(name)s"
    ),
    "zip_inside": _("%(name)s contains another zip file. Extract that file and import it."),
    "nothing_inside": _(
        "%(name)s contains no channel lists and no daily files. Use the zip file from Slack, "
        "or the folder it was unpacked to."
    ),
    "several_teams": _(
        "%(name)s contains %(n)s teams of an organization. Import the export of each team "
        "into its own workspace."
    ),
    "many_files": _("%(name)s contains more than %(n)s files. Split it into parts."),
    "leads_out": _(
        "%(name)s contains a path outside of the archive (%(file)s). Unpack it yourself, "
        "check its contents, and use the folder."
    ),
    "link": _(
        "%(name)s contains a link or a device (%(file)s). Unpack it yourself, check its "
        "contents, and use the folder."
    ),
    "same_name": _(
        "%(name)s contains two files with the same name (%(file)s). Unpack it yourself, "
        "check its contents, and use the folder."
    ),
    "overlap": _("%(name)s contains overlapping files."),
    "password": _("%(name)s is protected by a password. Unpack it and use the folder."),
    "unpacks_to_more": _(
        "%(name)s unpacks to far more data than an export of its size should. Unpack it "
        "yourself, check its contents, and use the folder."
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
