"""Rules of readers are written once for all who are alike, and ask with each one's own."""

from datetime import timedelta

import pytest
from django.core.exceptions import EmptyResultSet
from django.db.models.expressions import RawSQL

from memories.models import Channel, Job, Memory, Reader, Workspace
from tests.factories import MONDAY

WORDS = (
    Workspace.objects.visible_to,
    Workspace.objects.known_to,
    Workspace.objects.confirmed,
    Channel.objects.visible_to,
    Channel.objects.of_members,
    Memory.objects.visible_to,
    Job.objects.visible_to,
)
READERS = {
    "one": Reader(7, now=MONDAY),
    "another": Reader(8, now=MONDAY),
    "later": Reader(7, now=MONDAY + timedelta(hours=3)),
    "operator": Reader(7, is_operator=True, now=MONDAY),
    "another operator": Reader(9, is_operator=True, now=MONDAY),
    "public": Reader.public(MONDAY),
    "nobody": Reader(now=MONDAY),
}


@pytest.mark.django_db
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.__qualname__.split(".")[0])
@pytest.mark.parametrize("kind", READERS)
def test_each_asks_as_if_it_were_written_for_them(kind, word) -> None:
    reader = READERS[kind]
    try:
        asked = word(reader).order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:
        assert reader.keys(word) == ()
        return
    written = reader.keys(word)
    assert isinstance(written, RawSQL)
    assert (written.sql, tuple(written.params)) == asked
