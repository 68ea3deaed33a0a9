"""What people call a version: given to one that is there, or as the summary of an edit."""

from django.utils.translation import gettext as _

from memories.models.memory.versions import MAX_NAME_LENGTH


def name_in(given: str) -> str:
    """What was typed as one line."""
    return " ".join(given.replace("\0", "").split())


def fault_of_name(name: str) -> str:
    """Why it cannot be one, "" where it can."""
    if len(name) > MAX_NAME_LENGTH:
        return _("A name has at most %(n)s characters.") % {"n": MAX_NAME_LENGTH}
    return ""
