"""Note which migrations landed: `python -m tests.landed`, or `make landed`.

A landed migration has run somewhere; editing it would leave that database behind. The list holds
the SHA-256 of each; a change of the models goes into a new migration.
"""

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = ROOT / "memories" / "migrations"
LIST = Path(__file__).with_name("landed_migrations.txt")


def present() -> dict[str, str]:
    """Migration name → SHA-256 of its file."""
    return {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(MIGRATIONS.glob("[0-9]*.py"))
    }


def landed() -> dict[str, str]:
    if not LIST.exists():
        return {}
    pairs = (line.split() for line in LIST.read_text().splitlines())
    return {name: sha256 for sha256, name in pairs}


def main() -> int:
    now, before = present(), landed()
    edited = [name for name, sha256 in before.items() if now.get(name) != sha256]
    if edited:
        print("Edited or gone since they landed:", *edited, file=sys.stderr)
        return 1
    LIST.write_text("".join(f"{sha256}  {name}\n" for name, sha256 in now.items()))
    print(*(f"landed: {name}" for name in now if name not in before), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
