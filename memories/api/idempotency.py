"""`Idempotency-Key`: a repeated request to add a row gets the row of the first one."""

from collections.abc import Callable
from hashlib import sha256

from django.core.cache import cache
from django.db.models import Model
from django.http import HttpRequest

from memories.api.problems import Problem
from memories.models import ApiKey

KEPT_FOR = 24 * 3600  # seconds
MAX_KEY_LENGTH = 200  # characters
IDEMPOTENCY_PARAMETER = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "schema": {"type": "string", "maxLength": MAX_KEY_LENGTH},
    "description": "A repeated request with this key within a day gets the first response again.",
}


def add_once(request: HttpRequest, add: Callable[[], Model]) -> int:
    """Add a row, and return its primary key; that of the first request for a repeated one.

    Raises Problem 409 while the first request runs, and 422 if it had another body.
    """
    header = request.headers.get("Idempotency-Key", "")
    if not header:
        return int(add().pk)
    if len(header) > MAX_KEY_LENGTH:
        raise Problem(422, f"Idempotency-Key has more than {MAX_KEY_LENGTH} characters.")
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    name = f"idempotency-{key.pk}-{sha256(header.encode()).hexdigest()}"
    request_hash = sha256(request.path.encode() + b"\n" + request.body).hexdigest()
    if not cache.add(name, (request_hash, 0), KEPT_FOR):
        saved_hash, pk = cache.get(name) or (request_hash, 0)
        if saved_hash != request_hash:
            raise Problem(422, "This Idempotency-Key was used for another request.")
        if not pk:
            raise Problem(409, "The first request with this Idempotency-Key is still running.")
        return int(pk)
    try:
        pk = int(add().pk)
    except Exception:
        cache.delete(name)
        raise
    cache.set(name, (request_hash, pk), KEPT_FOR)
    return pk
