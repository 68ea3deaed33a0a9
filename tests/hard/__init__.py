"""What must hold whatever is killed, frozen, doubled or refused: `make hard`.

A hard test is a module `bar_*.py` with ``NAME`` (its number and a word), ``run(*, full, seed, work,
database_url)`` which returns its figures with ``pass`` and ``n``, and, where it is not run on every
database, ``DATABASES``. It runs in a process of its own, with Django set up on a fresh migrated
database, and makes its oracle from the rows and from the ledger of the fake model server, never from
what the app says of itself.
"""
