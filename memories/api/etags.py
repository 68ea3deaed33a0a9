"""The ETags of the API, and the answer 304 to a request whose If-None-Match has one of them.

The ETag of a context is the hash of its text, a dot, and the hash of all that it was built from
(`context_state`). The second part is known before a context is built.
"""

from datetime import datetime
from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_etags, quote_etag

from memories.models import ApiKey
from memoryhub import __version__


def context_state(request: HttpRequest, now: datetime) -> str:
    """Return a hash of the program, the data, the reader, the options and the minute of a context.

    The data is that of the moment at which the request was authenticated. So a change during the
    build counts as a later one.
    """
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    minute = now.replace(second=0, microsecond=0)
    reader, options = key.reader(minute), request.META.get("QUERY_STRING", "")
    built_from = (__version__, key.revision, key.workspace_id, reader, options)
    return _hash(repr(built_from).encode())


def etag_of(content: bytes, state: str) -> str:
    """Return the ETag of an answer, with the state of a context."""
    return quote_etag(".".join(filter(None, (_hash(content), state))))


def find_etag_with(request: HttpRequest, state: str) -> str:
    """Return the ETag in If-None-Match with this state, or ""."""
    return next((etag for etag in _given(request) if _parts(etag)[1] == state), "")


def has_etag(request: HttpRequest, etag: str) -> bool:
    """Return whether If-None-Match has an ETag of the same text."""
    return any(_parts(given)[0] == _parts(etag)[0] for given in _given(request))


def not_modified(etag: str) -> HttpResponse:
    response = HttpResponse(status=304)
    response["ETag"] = etag
    return response


def _given(request: HttpRequest) -> list[str]:
    """Return the ETags in If-None-Match. A proxy that compresses makes them weak."""
    etags = parse_etags(request.headers.get("If-None-Match", ""))
    return [etag.removeprefix("W/") for etag in etags if etag != "*"]


def _parts(etag: str) -> tuple[str, str]:
    text, _, state = etag.strip('"').partition(".")
    return text, state


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]
