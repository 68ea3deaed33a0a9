"""Options from environment variables.

`NAME_FILE` may name a file that contains the value of `NAME`, for secrets. The entry points
(`__main__.py`, `wsgi.py`) call `read_env_file`. The settings do not, so tests never read a developer's `.env`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from environ.fileaware_mapping import FileAwareMapping

PACKAGE_DIR = Path(__file__).resolve().parent
BASE_DIR = PACKAGE_DIR.parent
IS_CHECKOUT = (BASE_DIR / "manage.py").is_file()
"""Otherwise a wheel is installed. It contains the templates inside the package."""
PROGRAM = "manage.py" if IS_CHECKOUT else "memoryhub"
"""The command line's name in messages."""
_DATA_DIR = os.environ.get("XDG_DATA_HOME", "") or Path.home() / ".local" / "share"
HOME_DIR = BASE_DIR if IS_CHECKOUT else Path(_DATA_DIR) / "memoryhub"
"""The folder of `.env`. Relative paths in the settings start here."""


class _Literal(FileAwareMapping):  # type: ignore[misc]  # environ has no types
    """Values without the newline at the end of a file, and with `$` escaped.

    environ takes a value that begins with `$` for the name of another variable. A generated key may
    begin with it.
    """

    def __getitem__(self, key: str) -> str:
        return str(super().__getitem__(key)).rstrip("\r\n").replace("$", r"\$")


class Environment(environ.FileAwareEnv):  # type: ignore[misc]  # environ has no types
    ENVIRON = _Literal()

    def __init__(self) -> None:
        super().__init__()
        self.escape_proxy = True  # removes the backslash that `_Literal` adds before each `$`

    def get_value(self, var: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().get_value(var, *args, **kwargs)
        except ValueError as error:
            raise ImproperlyConfigured(f"{var} cannot be read: {error}") from error

    def choice(self, var: str, *, default: str, choices: Sequence[str]) -> str:
        """Return one of the choices. An empty variable means the default."""
        value = str(self.get_value(var, default=default)) or default
        if value not in choices:
            raise ImproperlyConfigured(f"{var} must be one of {', '.join(choices)}, not {value!r}.")
        return value


env = Environment()


def read_env_file() -> None:
    """Read `.env` in `HOME_DIR`. A variable of the environment overrides the file."""
    path = HOME_DIR / ".env"
    try:
        if path.is_file():
            environ.Env.read_env(os.fspath(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}") from error
