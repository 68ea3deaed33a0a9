import django.db.models.deletion
from datetime import timedelta

import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


def who_worded_them(apps, schema_editor):
    """A note that was never changed has its author's words; who changed the others nobody noted."""
    notes = apps.get_model("memories", "Note").objects.all()
    notes.update(worded_at=models.F("updated_at"))
    as_written = models.F("created_at") + timedelta(seconds=1)
    notes.filter(updated_at__lte=as_written).update(worded_by=models.F("author"))


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0005_person_settings'),
    ]

    operations = [
        migrations.CreateModel(
            name='NoteVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='version')),
                ('title', models.CharField(max_length=60, verbose_name='title')),
                ('kind', models.CharField(blank=True, choices=[('pattern', 'pattern'), ('architecture', 'architecture'), ('solution', 'solution')], max_length=12, verbose_name='type')),
                ('tags', models.JSONField(blank=True, default=list, verbose_name='tags')),
                ('date', models.DateField(verbose_name='date')),
                ('content', models.TextField(verbose_name='content')),
                ('was_private', models.BooleanField(default=False, verbose_name='written in private')),
                ('written_at', models.DateTimeField(verbose_name='written')),
                ('restored_from', models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                'verbose_name': 'version of a note',
                'verbose_name_plural': 'versions of notes',
            },
        ),
        migrations.AddField(
            model_name='note',
            name='deleted_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='deleted'),
        ),
        migrations.AddField(
            model_name='note',
            name='deleted_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='notes_deleted', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='note',
            name='in_context',
            field=models.BooleanField(default=True, help_text='Whether bots and agents are given it.', verbose_name='in contexts'),
        ),
        migrations.AddField(
            model_name='note',
            name='is_pinned',
            field=models.BooleanField(default=False, verbose_name='pinned'),
        ),
        migrations.AddField(
            model_name='note',
            name='number',
            field=models.PositiveIntegerField(default=1, editable=False, verbose_name='version'),
        ),
        migrations.AddField(
            model_name='note',
            name='restored_from',
            field=models.PositiveIntegerField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='note',
            name='review_on',
            field=models.DateField(blank=True, null=True, verbose_name='to be reviewed on'),
        ),
        migrations.AddField(
            model_name='note',
            name='revision',
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name='note',
            name='worded_at',
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='worded'),
        ),
        migrations.AddField(
            model_name='note',
            name='worded_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='notes_worded', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='note',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='note_counts_from_1'),
        ),
        migrations.AddField(
            model_name='noteversion',
            name='channel',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='note_versions', to='memories.channel'),
        ),
        migrations.AddField(
            model_name='noteversion',
            name='note',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='memories.note'),
        ),
        migrations.AddField(
            model_name='noteversion',
            name='written_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='note_versions', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='noteversion',
            constraint=models.UniqueConstraint(fields=('note', 'number'), name='note_version_number'),
        ),
        migrations.AddConstraint(
            model_name='noteversion',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='note_version_counts_from_1'),
        ),
        migrations.RunPython(who_worded_them, migrations.RunPython.noop),
    ]
