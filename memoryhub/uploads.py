"""File uploads: only an operator may upload a file, an export."""

from typing import Any

from django.core import signing
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

MAX_BYTES = 1 << 30  # import a larger export with `manage.py import_slack`
_TICKET_SECONDS = 24 * 3600  # between the page with the form and the file
_SALT = "memoryhub.uploads"


def make_ticket() -> str:
    """Return a signed text for the URL of an operator's form, so that the web server accepts its file.

    The web server decides before Django runs and cannot read a session.
    """
    return signing.TimestampSigner(salt=_SALT).sign("upload")


def is_ticket(text: str) -> bool:
    try:
        signing.TimestampSigner(salt=_SALT).unsign(text, max_age=_TICKET_SECONDS)
    except signing.BadSignature:
        return False
    return True


class OperatorsExport(FileUploadHandler):
    """The first upload handler: skip a file that is too large or not from an operator.

    The server reads a skipped file from the connection and stores it nowhere.
    """

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        user: Any = getattr(self.request, "user", None)
        if start + len(raw_data) > MAX_BYTES or not (user and getattr(user, "is_operator", False)):
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None
