"""Names of people and channels that one reader may see, for `rules.ingest.markup`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memories.models.access.readers import Reader
from memories.models.access.workspaces import Workspace
from memories.rules.ingest.markup import mentions_in


@dataclass(frozen=True)
class Names:
    """Look-ups by Slack id; None for unknown ids and for channels that the reader may not see."""

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def public(cls, workspace: Workspace) -> "Names":
        """Return the names of all people and of all public channels, for a redaction."""
        return cls(workspace.people.names(), workspace.channels.public().names())

    def person(self, slack_id: str) -> str | None:
        return self.people.get(slack_id)

    def channel(self, slack_id: str) -> str | None:
        return self.channels.get(slack_id)


def names_in(texts: Iterable[str], workspace: Workspace, reader: Reader) -> Names:
    """Return the names of the mentioned people, and of the mentioned channels that the reader may see.

    Two queries.
    """
    people_ids, channel_ids = mentions_in(texts)
    people = workspace.people.filter(slack_id__in=people_ids)
    channels = workspace.channels.visible_to(reader).filter(slack_id__in=channel_ids)
    return Names(people.names(), channels.names())
