from django.db import migrations, models
from django.db.models import deletion

FAULT = "UPDATE memories_job SET fault = '{}' WHERE fault = '{}'"


def rename_permissions(apps, schema_editor):
    """RenameModel renames the content type only. New codenames would take rights from accounts."""
    _rename(apps, 'cap', 'budget')


def restore_permissions(apps, schema_editor):
    _rename(apps, 'budget', 'cap')


def _rename(apps, old, new):
    permissions = apps.get_model('auth', 'Permission').objects.filter(content_type__app_label='memories')
    for action in ('add', 'change', 'delete', 'view'):
        permissions.filter(codename=f'{action}_{old}').update(codename=f'{action}_{new}')


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('memories', '0023_quarantine_waiting'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='cap',
            name='cap_of_workspace',
        ),
        migrations.RemoveConstraint(
            model_name='cap',
            name='cap_of_all',
        ),
        migrations.RenameModel(
            old_name='Cap',
            new_name='Budget',
        ),
        migrations.AlterField(
            model_name='budget',
            name='workspace',
            field=models.ForeignKey(blank=True, help_text='Empty: applies to the whole installation.', null=True, on_delete=deletion.CASCADE, related_name='budgets', to='memories.workspace'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('workspace__isnull', False)), fields=('workspace', 'period'), name='budget_of_workspace'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('workspace__isnull', True)), fields=('period',), name='budget_of_all'),
        ),
        migrations.RunPython(rename_permissions, restore_permissions),
        migrations.RemoveIndex(
            model_name='job',
            name='job_over_cap',
        ),
        migrations.RunSQL(
            FAULT.format('over_budget', 'over_cap'),
            FAULT.format('over_cap', 'over_budget'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('fault', 'over_budget'), ('state', 'waiting')), fields=['retry_at'], name='job_over_budget'),
        ),
    ]
