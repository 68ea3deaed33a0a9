"""Names of people and channels that one reader may see, for `rules.ingest.markup`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from memories.models.access.workspaces import Workspace


@dataclass(frozen=True)
class Names:
    """Look-ups by Slack id; None for unknown ids and for channels that the reader may not see."""

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def public(cls, workspace: Workspace) -> "Names":
        """Return the names that every reader of the workspace may see."""
        return cls(workspace.people.all().names(), workspace.channels.public().names())

    def person(self, slack_id: str) -> str | None:
        return self.people.get(slack_id)

    def channel(self, slack_id: str) -> str | None:
        return self.channels.get(slack_id)
