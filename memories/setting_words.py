"""The labels and help texts of the settings of a workspace."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memories.rules import settings as rules

Text = str | Promise

# The label and help text of each setting. A test requires all of them.
SETTING_WORDS: dict[str, tuple[Text, Text]] = {
    "short_term_window_hours": (
        _("Look back (hours)"),
        _(
            "How far back the first summary of a channel, its threads and a memory without "
            "history reach."
        ),
    ),
    "short_term_max_tokens": (
        _("Maximum length of a summary (words)"),
        _("For the summary of one conversation."),
    ),
    "long_term_max_tokens": (
        _("Maximum length of a long-term memory (words)"),
        _("For each channel and for the workspace."),
    ),
    "history_enabled": (
        _("Keep a history"),
        _(
            "Each conversation adds a version. Without a history, the newest summary is "
            "overwritten."
        ),
    ),
    "max_history_count": (
        _("Versions in a context"),
        _("The number of short-term versions per channel."),
    ),
    "conversation_idle_seconds": (
        _("End of a conversation (hours without a message)"),
        _("Messages are summarized after this time without a new message."),
    ),
    "message_threshold": (
        _("Messages per conversation"),
        _("A conversation is summarized when it reaches this number, even if it continues."),
    ),
    "thread_memories": (
        _("Summarize threads"),
        _("Long threads get their own memory."),
    ),
    "thread_min_messages": (
        _("Minimum replies to summarize a thread"),
        _("Threads with at least this many messages get their own memory."),
    ),
    "workspace_short_term": (
        _("Short-term memory of the workspace"),
        _("A short overview of all public channels."),
    ),
    "merge_mode": (
        _("Updates of long-term memories"),
        _(
            "Changing single lines keeps all other lines unchanged. A rewrite creates the whole "
            "text again."
        ),
    ),
    "notes_enabled": (
        _("Use notes"),
        _("If notes are off, existing notes are kept but hidden."),
    ),
    "notes_inject": (
        _("Notes in contexts"),
        _("Include notes in every context, only on request, or never."),
    ),
    "time_zone": (
        _("Time zone"),
        _("For dates and times in pages and summaries."),
    ),
    "output_language": (
        _("Language of memories"),
        _("The language of summaries."),
    ),
    "read_private_channels": (
        _("Read private channels from Slack"),
        _("For channels that the bot is invited to. The app needs groups:read and groups:history."),
    ),
    "read_emails": (
        _("Read e-mail addresses from Slack"),
        _("Links people to their accounts here. The app needs users:read.email."),
    ),
    "slack_commands": (
        _("Command /memory in Slack"),
        _("Catch up, ask and note in any channel."),
    ),
    "slack_shortcuts": (
        _("Message shortcuts in Slack"),
        _("“Remember this” and “This is wrong” in the menu of a message."),
    ),
    "slack_home": (
        _("Home tab in Slack"),
        _("Shows each person what is new."),
    ),
    "slack_reaction": (
        _("Notes by reaction in Slack"),
        _("Members of a channel keep a message as a note with the reaction :memo:."),
    ),
    "slack_unfurls": (
        _("Previews of links in Slack"),
        _("Links to this hub show their text where everybody may read it."),
    ),
    "retention_days": (
        _("Keep messages for (days)"),
        _(
            "Older messages are deleted every day. Their memories are kept. 0 keeps messages "
            "forever."
        ),
    ),
}

# Settings that forms show in another unit: how many stored units it has, and its decimal places.
UNITS: dict[str, tuple[float, int]] = {
    "short_term_max_tokens": (4 / 3, 0),  # words
    "long_term_max_tokens": (4 / 3, 0),
    "conversation_idle_seconds": (3600, 2),  # hours
}

# The settings outside of "Advanced".
BASIC_KEYS = (
    "output_language",
    "time_zone",
    "notes_enabled",
    "read_private_channels",
    "read_emails",
    "retention_days",
)

# The label of each preset, and its effect, also on costs.
PRESET_WORDS: dict[str, tuple[Text, Text]] = {
    "busy": (
        _("Busy team"),
        _(
            "Channels with dozens of messages a day. Each model call reads up to 50 messages, so "
            "a message costs little."
        ),
    ),
    "quiet": (
        _("Quiet team"),
        _(
            "Channels with a few messages a day. Shorter summaries after 20 messages or 8 quiet "
            "hours: more calls for each message, few in total."
        ),
    ),
    rules.CUSTOM: (
        _("Custom"),
        _("Your own values under Advanced. Each shows its effect on costs."),
    ),
}

CHOICE_WORDS: dict[str, dict[str, Text]] = {
    "notes_inject": {
        "auto": _("always"),
        "manual": _("on request"),
        "none": _("never"),
    },
    "merge_mode": {
        "rewrite": _("rewrite the whole text"),
        "operations": _("change single lines"),
    },
    "output_language": {
        "conversation": _("language of the conversation"),
        "ja": _("Japanese"),
        "en": _("English"),
    },
}
