"""The environment: where every option comes from.

`env` reads variables; `NAME_FILE` may name a file that holds the value, for secrets.
`read_env_file` is called by the entry points (manage.py, wsgi.py) and not by the settings, so
that tests never see a developer's `.env`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from environ.fileaware_mapping import FileAwareMapping

BASE_DIR = Path(__file__).resolve().parent.parent


class _Literal(FileAwareMapping):  # type: ignore[misc]  # environ has no types
    """Values as they were meant. Files end in a newline, values do not; and environ takes what
    begins with `$` for another variable's name, though a generated key may begin so, too."""

    def __getitem__(self, key: str) -> str:
        return str(super().__getitem__(key)).rstrip("\r\n").replace("$", r"\$")


class Environment(environ.FileAwareEnv):  # type: ignore[misc]  # environ has no types
    ENVIRON = _Literal()

    def __init__(self) -> None:
        super().__init__()
        self.escape_proxy = True  # takes away what `_Literal` puts before each `$`

    def get_value(self, var: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().get_value(var, *args, **kwargs)
        except ValueError as error:
            raise ImproperlyConfigured(f"{var} cannot be read: {error}") from error

    def choice(self, var: str, *, default: str, choices: Sequence[str]) -> str:
        """One of a few words; blank is unset."""
        word = str(self.get_value(var, default=default)) or default
        if word not in choices:
            raise ImproperlyConfigured(f"{var} must be one of {', '.join(choices)}, not {word!r}.")
        return word


env = Environment()


def read_env_file() -> None:
    """Add the lines of `.env` beside manage.py; what the environment already has wins."""
    path = BASE_DIR / ".env"
    if path.is_file():
        environ.Env.read_env(os.fspath(path))
