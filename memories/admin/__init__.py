"""The rows as an operator sees them, by subject."""

from memories.admin import channels, generations, memories, notes, workspaces

__all__ = ["channels", "generations", "memories", "notes", "workspaces"]
