"""Zip files that no honest program writes."""

import io
import stat
import struct
import warnings
import zipfile

LOCAL, ENTRY, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
# Where a field lies in an entry of the directory: (offset, format).
FIELDS = {
    "flags": (8, "<H"),
    "method": (10, "<H"),
    "crc": (16, "<L"),
    "packed": (20, "<L"),
    "size": (24, "<L"),
    "name_length": (28, "<H"),
    "extra_length": (30, "<H"),
    "attributes": (38, "<L"),
    "place": (42, "<L"),
}


class _Pipe(io.BytesIO):
    def tell(self) -> int:
        raise OSError("a pipe has no place")


def packed(
    files: dict[str, bytes] | list[tuple[str, bytes]],
    method: int = zipfile.ZIP_DEFLATED,
    out: io.BytesIO | None = None,
) -> bytes:
    """A zip of these files under these names, whatever the names are and however often."""
    out = out or io.BytesIO()
    pairs = list(files.items()) if isinstance(files, dict) else files
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that come twice
        for name, content in pairs:
            archive.writestr(name, content)
    return out.getvalue()


def streamed(files: dict[str, bytes]) -> bytes:
    """As written to a pipe: sizes stand behind the content, not before it."""
    return packed(files, out=_Pipe())


def entries(data: bytes) -> dict[str, int]:
    """Where the directory's entry of each file begins."""
    end = data.rindex(END)
    (at,) = struct.unpack_from("<L", data, end + 16)
    found = {}
    while data[at : at + 4] == ENTRY:
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        found[data[at + 46 : at + 46 + name].decode("utf-8", "replace")] = at
        at += 46 + name + extra + comment
    return found


def place_of(data: bytes, name: str) -> int:
    """Where the file itself begins: its own header."""
    place: int = struct.unpack_from("<L", data, entries(data)[name] + 42)[0]
    return place


def claiming(data: bytes, name: str, **fields: int) -> bytes:
    """With other values in the directory's entry of a file; ``flags`` in its own header too."""
    changed = bytearray(data)
    at = entries(data)[name]
    for field, value in fields.items():
        offset, form = FIELDS[field]
        struct.pack_into(form, changed, at + offset, value)
        if field == "flags":
            struct.pack_into("<H", changed, place_of(data, name) + 6, value)
    return bytes(changed)


def encrypted(data: bytes, *names: str) -> bytes:
    for name in names or tuple(entries(data)):
        data = claiming(data, name, flags=1)
    return data


def with_link(files: dict[str, bytes], name: str, target: str) -> bytes:
    out = io.BytesIO(packed(files))
    link = zipfile.ZipInfo(name)
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(link, target)
    return out.getvalue()


def laid_over(data: bytes, name: str, other: str) -> bytes:
    """One file's entry points into another's content."""
    return claiming(data, name, place=place_of(data, other))
