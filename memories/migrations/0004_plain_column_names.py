"""Rename columns to the words of the glossary, and drop two unused ones."""

from django.db import migrations


def _rename(model, **names):
    return [
        migrations.RenameField(model_name=model, old_name=old, new_name=new)
        for old, new in names.items()
    ]


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0003_webhooks"),
    ]

    operations = [
        # Their conditions name renamed columns. The next migration adds them again.
        migrations.RemoveIndex("message", "message_owing_replies"),
        migrations.RemoveConstraint("person", "person_link_proven_or_ends"),
        *_rename("workspace", offered_at="pass_queued_at", sync_again_at="next_sync_at"),
        *_rename("slackconnection", sealed_token="encrypted_token"),
        *_rename("person", opens_until="link_valid_until"),
        *_rename("user", password_given_at="password_set_at"),
        *_rename("seen", was_number="previous_number", was_at="previous_at"),
        *_rename("upload", alive_at="heartbeat_at", begun_at="claimed_at"),
        *_rename("message", thread_moved="has_unread_replies", thread_at_ts="thread_read_to_ts"),
        *_rename("channel", cut_from_us="segments_from_us", narrowed_at="access_narrowed_at"),
        *_rename("line", masked="redacted"),
        migrations.RemoveField("heartbeat", "asked_at"),
        migrations.RemoveField("heartbeat", "seen_at"),
    ]
