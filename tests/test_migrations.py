"""Landed migrations never change."""

from tests import landed


def test_landed_migrations_are_unedited() -> None:
    now = landed.present()
    edited = [name for name, digest in landed.landed().items() if now.get(name) != digest]
    assert not edited, "put the change into a new migration"


def test_every_migration_is_on_the_list() -> None:
    missing = landed.present().keys() - landed.landed().keys()
    assert not missing, "run `make landed` before you commit a migration"
