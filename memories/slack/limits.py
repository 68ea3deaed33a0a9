"""Limits on the bytes that are read from an export. They do not rely on the sizes it claims."""

from memories.slack.jsonlists import Readable, Unreadable

MAX_FILES = 200_000  # files
MAX_FILE_BYTES = 2 << 30  # bytes, unpacked
MAX_TOTAL_BYTES = 64 << 30
# Messages compress to a tenth or a twentieth of their size. A higher ratio is an attack.
MAX_RATIO = 200
MIN_TOTAL_BYTES = 1 << 20  # always allowed: a few equal lines compress better


def max_unpacked_bytes(packed: int) -> int:
    """Return how many bytes an archive of this size may contain."""
    return min(MAX_TOTAL_BYTES, MIN_TOTAL_BYTES + MAX_RATIO * packed)


class Meter:
    """Counts the bytes read from all files of an export. A file that is read twice counts once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._bytes_by_file: dict[object, int] = {}

    def wrap(self, file: Readable, key: object) -> "MeteredFile":
        return MeteredFile(file, self, key)

    def count(self, key: object, file_bytes: int) -> None:
        """Record the bytes read from a file so far; raise `Unreadable` beyond a limit."""
        before = self._bytes_by_file.get(key, 0)
        self._total += max(0, file_bytes - before)
        self._bytes_by_file[key] = max(file_bytes, before)
        if file_bytes > MAX_FILE_BYTES:
            raise Unreadable("too large")
        if self._total > self._max_bytes:
            raise Unreadable("after more than an export may hold")


class MeteredFile:
    """A file that reports every byte to a meter."""

    def __init__(self, file: Readable, meter: Meter, key: object) -> None:
        self._file, self._meter, self._key = file, meter, key
        self._bytes_read = 0

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._bytes_read += len(data)
        self._meter.count(self._key, self._bytes_read)
        return data
