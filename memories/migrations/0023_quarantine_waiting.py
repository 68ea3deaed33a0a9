from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0022_pass_due_at'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='quarantinedline',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['memory'], name='quarantine_waiting'),
        ),
    ]
