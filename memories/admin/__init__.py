"""The rows as an operator sees them, by subject."""

from memories.admin import (
    accounts,
    audit,
    backfills,
    channels,
    connections,
    endpoints,
    events,
    generations,
    memories,
    money,
    notes,
    openings,
    quarantine,
    workspaces,
)

__all__ = [
    "accounts",
    "audit",
    "backfills",
    "channels",
    "connections",
    "endpoints",
    "events",
    "generations",
    "memories",
    "money",
    "notes",
    "openings",
    "quarantine",
    "workspaces",
]
