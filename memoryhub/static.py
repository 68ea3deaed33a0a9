"""Collect the static files after a change."""

import hashlib
import os

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command


def collect_static_when_changed() -> bool:
    """Update STATIC_ROOT. Return False if it was current."""
    stamp = settings.STATIC_ROOT / ".collected"
    current = fingerprint()
    if stamp.is_file() and stamp.read_text() == current:
        return False
    call_command("collectstatic", interactive=False, verbosity=0, clear=True)
    stamp.write_text(current)
    return True


def fingerprint() -> str:
    """Return a digest of the name, size and time of every static file."""
    digest = hashlib.sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in sorted(finder.list([]), key=lambda item: item[0]):
            status = os.stat(storage.path(name))
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
