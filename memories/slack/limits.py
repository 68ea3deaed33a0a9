"""How much of an export is read: by bytes really read, whatever its files say of themselves."""

from memories.slack.jsonlists import Readable, Unreadable

MAX_FILES = 200_000  # files
MAX_FILE_BYTES = 2 << 30  # bytes, unpacked
MAX_TOTAL_BYTES = 64 << 30
# Messages pack to a tenth or a twentieth; what unpacks to more than this was made to harm. So much
# is read in any case: a few lines may well be all alike.
MAX_RATIO = 200
MIN_TOTAL_BYTES = 1 << 20


def max_unpacked_bytes(packed: int) -> int:
    """The most bytes that an archive of this size may hold."""
    return min(MAX_TOTAL_BYTES, MIN_TOTAL_BYTES + MAX_RATIO * packed)


class Meter:
    """Counts what is read of all files of an export; reading one twice counts once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._of: dict[object, int] = {}

    def through(self, file: Readable, key: object) -> "Metered":
        return Metered(file, self, key)

    def count(self, key: object, so_far: int) -> None:
        """So many bytes of this file have been read. `Unreadable` beyond a limit."""
        self._total += max(0, so_far - self._of.get(key, 0))
        self._of[key] = max(so_far, self._of.get(key, 0))
        if so_far > MAX_FILE_BYTES:
            raise Unreadable("too large")
        if self._total > self._most:
            raise Unreadable("after more than an export may hold")


class Metered:
    """A file that tells the meter of every byte."""

    def __init__(self, file: Readable, meter: Meter, key: object) -> None:
        self._file, self._meter, self._key = file, meter, key
        self._so_far = 0

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._so_far += len(data)
        self._meter.count(self._key, self._so_far)
        return data
