"""Which files a request may bring along: an operator's export, and no other."""

from typing import Any

from django.core import signing
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

LARGEST = 1 << 30  # bytes; a larger export is imported on the server's command line
_TICKET_SECONDS = 24 * 3600  # between the page with the form and the file
_SALT = "memoryhub.uploads"


def make_ticket() -> str:
    """Return what the address of an operator's form holds, so that the web server takes its file.

    The web server decides before Django runs and so cannot look for a session.
    """
    return signing.TimestampSigner(salt=_SALT).sign("upload")


def is_ticket(text: str) -> bool:
    try:
        signing.TimestampSigner(salt=_SALT).unsign(text, max_age=_TICKET_SECONDS)
    except signing.BadSignature:
        return False
    return True


class OperatorsExport(FileUploadHandler):
    """The first handler of all: what it skips is read from the wire and kept nowhere, also where a
    stranger sends it to a page that takes no files."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        user: Any = getattr(self.request, "user", None)
        if start + len(raw_data) > LARGEST or not (user and getattr(user, "is_operator", False)):
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None
