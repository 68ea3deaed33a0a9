"""What a probe of an endpoint found out, room for thoughts, and the form in which a job is asked."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memories', '0022_job_state_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='answered_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='answered again'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='cites',
            field=models.BooleanField(blank=True, null=True, verbose_name='gives sources'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='context_tokens',
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name='tokens read at once'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='form',
            field=models.CharField(blank=True, choices=[('full', 'full'), ('simple', 'simple')], default='', max_length=10, verbose_name='prompt form'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='keeps_language',
            field=models.BooleanField(blank=True, null=True, verbose_name='keeps the language'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='probed_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='probed'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='reasons',
            field=models.BooleanField(blank=True, null=True, verbose_name='reasons'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='thinking_tokens',
            field=models.PositiveIntegerField(default=0, verbose_name='tokens for thinking'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='tokens_per_second',
            field=models.FloatField(blank=True, null=True, verbose_name='tokens a second'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='writes_operations',
            field=models.BooleanField(blank=True, null=True, verbose_name='writes operations'),
        ),
        migrations.AddField(
            model_name='generation',
            name='failed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='generation',
            name='form',
            field=models.CharField(blank=True, choices=[('full', 'full'), ('simple', 'simple')], default='', max_length=10),
        ),
    ]
