from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0024_budget'),
    ]

    operations = [
        migrations.RenameField(
            model_name='endpoint',
            old_name='probing_until',
            new_name='half_open_until',
        ),
    ]
