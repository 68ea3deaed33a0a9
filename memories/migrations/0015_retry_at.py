from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0014_plain_column_names'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='job',
            name='job_over_cap',
        ),
        migrations.RenameField(
            model_name='endpoint',
            old_name='not_before',
            new_name='retry_at',
        ),
        migrations.RenameField(
            model_name='job',
            old_name='not_before',
            new_name='retry_at',
        ),
        migrations.RenameField(
            model_name='slackevent',
            old_name='not_before',
            new_name='retry_at',
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('fault', 'over_cap'), ('state', 'waiting')), fields=['retry_at'], name='job_over_cap'),
        ),
    ]
