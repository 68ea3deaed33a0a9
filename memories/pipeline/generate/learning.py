"""Learn from conversations: propose lasting lines of a merge as notes (S4)."""

from memories.models import MemoryVersion, Note, Proposal
from memories.rules.memory.learning import MAX_PROPOSALS, note_type
from memories.rules.memory.lines import Origin, strip_bullet


def propose_notes(version: MemoryVersion) -> None:
    """Propose the new ways of working and solutions in a channel's long-term memory as notes.

    Rules choose the lines, so there is no call of a model. A text is proposed once. The sources of
    a line become those of its proposal. Call it in the transaction that adds the version.
    """
    memory, settings = version.memory, version.memory.workspace.memory_settings
    if not (settings.propose_notes and settings.notes_enabled) or memory.channel is None:
        return
    if version.audience != MemoryVersion.Audience.SCOPE:
        return
    new_lines = version.lines.filter(
        since=version.number, origin=Origin.MODEL, redacted=False, unverified=False
    )
    texts = {strip_bullet(line.text): line for line in new_lines}
    types = {text: note_type(text, line.kind) for text, line in texts.items()}
    proposed = Proposal.objects.notes().filter(memory__workspace=memory.workspace, text__in=texts)
    notes = Note.objects.filter(workspace=memory.workspace, content__in=texts)
    earlier = {*proposed.values_list("text", flat=True), *notes.values_list("content", flat=True)}
    lasting = [text for text, kind in types.items() if kind and text not in earlier]
    for text in lasting[:MAX_PROPOSALS]:
        sources = texts[text].sources.filter(channel=memory.channel).without_private_days()
        Proposal.objects.propose(
            version,
            None,
            text,
            note_type=types[text],
            sources=list(sources.values_list("pk", flat=True)),
        )
