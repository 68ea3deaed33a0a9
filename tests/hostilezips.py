"""Zip files that no honest program writes."""

import io
import stat
import struct
import warnings
import zipfile

LOCAL, ENTRY, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
# The fields of an entry of the directory: (offset, format).
FIELDS = {
    "flags": (8, "<H"),
    "method": (10, "<H"),
    "crc": (16, "<L"),
    "packed": (20, "<L"),
    "size": (24, "<L"),
    "name_length": (28, "<H"),
    "extra_length": (30, "<H"),
    "attributes": (38, "<L"),
    "header_offset": (42, "<L"),
}


class _Pipe(io.BytesIO):
    def tell(self) -> int:
        raise OSError("a pipe has no position")


def make_zip(
    files: dict[str, bytes] | list[tuple[str, bytes]],
    method: int = zipfile.ZIP_DEFLATED,
    out: io.BytesIO | None = None,
) -> bytes:
    """Return a zip of these files. Pairs allow a name twice."""
    out = out or io.BytesIO()
    pairs = list(files.items()) if isinstance(files, dict) else files
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a name that comes twice
        for name, content in pairs:
            archive.writestr(name, content)
    return out.getvalue()


def make_streamed_zip(files: dict[str, bytes]) -> bytes:
    """Return a zip as written to a pipe: sizes follow the content."""
    return make_zip(files, out=_Pipe())


def entry_offsets(data: bytes) -> dict[str, int]:
    """Return the offset of each file's entry in the directory."""
    end = data.rindex(END)
    (offset,) = struct.unpack_from("<L", data, end + 16)
    offsets = {}
    while data[offset : offset + 4] == ENTRY:
        name, extra, comment = struct.unpack_from("<HHH", data, offset + 28)
        offsets[data[offset + 46 : offset + 46 + name].decode("utf-8", "replace")] = offset
        offset += 46 + name + extra + comment
    return offsets


def header_offset(data: bytes, name: str) -> int:
    """Return the offset of a file's own header."""
    offset: int = struct.unpack_from("<L", data, entry_offsets(data)[name] + 42)[0]
    return offset


def with_fields(data: bytes, name: str, **fields: int) -> bytes:
    """Change fields of a file's entry in the directory; ``flags`` in its own header too."""
    changed = bytearray(data)
    entry = entry_offsets(data)[name]
    for field, value in fields.items():
        offset, form = FIELDS[field]
        struct.pack_into(form, changed, entry + offset, value)
        if field == "flags":
            struct.pack_into("<H", changed, header_offset(data, name) + 6, value)
    return bytes(changed)


def with_encryption_flag(data: bytes, *names: str) -> bytes:
    """Mark these files as encrypted, or all."""
    for name in names or tuple(entry_offsets(data)):
        data = with_fields(data, name, flags=1)
    return data


def with_garbage(data: bytes, name: str) -> bytes:
    """Overwrite the begin of a file's content."""
    begin = header_offset(data, name) + 30 + len(name)
    return data[:begin] + b"\xff" * 20 + data[begin + 20 :]


def with_link(files: dict[str, bytes], name: str, target: str) -> bytes:
    """Return a zip with a symbolic link."""
    out = io.BytesIO(make_zip(files))
    link = zipfile.ZipInfo(name)
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(link, target)
    return out.getvalue()


def with_overlap(data: bytes, name: str, target: str) -> bytes:
    """Let a file's entry point to the content of another file."""
    return with_fields(data, name, header_offset=header_offset(data, target))
