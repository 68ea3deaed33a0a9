"""An empty database for a measurement, on the server of DATABASE_URL or in a SQLite file."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def empty_database(*, migrate: bool = False) -> Iterator[Path]:
    """Set up Django on a temporary database, and yield a temporary folder.

    Without ``migrate`` the tables are made from the models, and the project's commands refuse them.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as name:
        os.environ["MEMORYHUB_VAR"] = name
        import django

        django.setup()
        from django.db import connection

        connection.settings_dict["TEST"] |= {"MIGRATE": migrate}
        connection.settings_dict["TEST"]["NAME"] = (
            str(Path(name) / "bench.sqlite3")
            if connection.vendor == "sqlite"
            else f"test_{Path(name).name}"
        )
        before = connection.settings_dict["NAME"]
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
        try:
            yield Path(name)
        finally:
            connection.creation.destroy_test_db(before, verbosity=0)
