"""Learn from conversations: propose lasting lines of a merge as notes (S4)."""

from memories.models import Line, MemoryVersion, Note, Proposal
from memories.models.ingest.channels import Channel
from memories.rules.memory.learning import MOST, note_type
from memories.rules.memory.lines import Origin, words_of


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
    texts = {words_of(line.text): line for line in new_lines.prefetch_related("sources")}
    types = {text: note_type(text, line.kind) for text, line in texts.items()}
    proposed = Proposal.objects.notes().filter(memory__workspace=memory.workspace, text__in=texts)
    notes = Note.objects.filter(workspace=memory.workspace, content__in=texts)
    earlier = {*proposed.values_list("text", flat=True), *notes.values_list("content", flat=True)}
    lasting = [text for text, kind in types.items() if kind and text not in earlier]
    for text in lasting[:MOST]:
        Proposal.objects.propose(
            version,
            None,
            text,
            note_type=types[text],
            sources=_shareable_sources(texts[text], memory.channel),
        )


def _shareable_sources(line: Line, channel: Channel) -> list[int]:
    """Return the keys of the line's messages, without those from the private days of a channel."""
    sources = line.sources.filter(channel=channel)
    if channel.is_public:
        sources = sources.filter(was_private=False)
    return list(sources.values_list("pk", flat=True))
