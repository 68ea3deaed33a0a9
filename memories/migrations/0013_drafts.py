import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0012_asked_for'),
    ]

    operations = [
        migrations.CreateModel(
            name='UnsavedText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.TextField(verbose_name='text')),
                ('based_on', models.PositiveIntegerField(verbose_name='version')),
                ('revision', models.PositiveIntegerField(verbose_name='times rewritten')),
                ('at', models.DateTimeField(verbose_name='when')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='unsaved', to='memories.memory')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='unsaved', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'unsaved text',
                'verbose_name_plural': 'unsaved texts',
                'constraints': [models.UniqueConstraint(fields=('user', 'memory'), name='unsaved_once')],
            },
        ),
    ]
