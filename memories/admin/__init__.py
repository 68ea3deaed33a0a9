"""The rows as an operator sees them, by subject."""

from memories.admin import (
    audit,
    backfills,
    channels,
    endpoints,
    generations,
    memories,
    money,
    notes,
    workspaces,
)

__all__ = [
    "audit",
    "backfills",
    "channels",
    "endpoints",
    "generations",
    "memories",
    "money",
    "notes",
    "workspaces",
]
