"""Find channels, people and notes whose names resemble the words of a query."""

from memories.models import Channel, Note, Person, Reader, Workspace
from memories.models.access.audience import readable_workspaces
from memories.rules.search.query import Query
from memories.rules.search.similar_names import similar_names, words_to_compare

COMPARED = 1_000  # names of each kind


def find_similar_names(
    query: Query, workspace: Workspace, reader: Reader
) -> list[Channel | Note | Person]:
    """Return what the reader may read and may have meant. The number of queries is constant."""
    words = words_to_compare(query)
    if not words:
        return []
    channels = Channel.objects.visible_to(reader).filter(workspace=workspace)
    notes = Note.objects.visible_to(reader).in_use(workspace).exclude(title="")
    readable = readable_workspaces(reader).filter(pk=workspace.pk)  # guests see no list of people
    people = Person.objects.filter(workspace__in=readable.values("pk")).exclude(name="")
    rows: list[Channel | Note | Person] = [
        *channels.order_by("is_archived", "pk")[:COMPARED],
        *people.order_by("pk")[:COMPARED],
        *notes.order_by("-pk")[:COMPARED],
    ]
    names = [row.title if isinstance(row, Note) else row.name for row in rows]
    return [rows[index] for index in similar_names(words, names)]
