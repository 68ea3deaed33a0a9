"""The HTTP API for agents, `/api/v1/`: keys, contexts, memories, search, notes (docs/agents.md)."""
