"""Names of versions, from the name form or from the summary of an edit."""

from django.utils.translation import gettext as _

from memories.models.memory.versions import MAX_NAME_LENGTH


def clean_name(text: str) -> str:
    """Return a typed name on one line. PostgreSQL cannot store NUL."""
    return " ".join(text.replace("\0", "").split())


def name_error(name: str) -> str:
    """Return the error of an invalid name, else ""."""
    if len(name) > MAX_NAME_LENGTH:
        return _("A name has at most %(n)s characters.") % {"n": MAX_NAME_LENGTH}
    return ""
