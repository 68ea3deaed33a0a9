"""Addresses of the pages. `channels.detail` is named `channels-detail`."""

from django.urls import URLPattern, URLResolver, path

from memories.views import (
    backfill,
    channels,
    events,
    jobs,
    memories,
    messages,
    notes,
    pages,
    proposals,
    quarantine,
    settings,
    slack,
    threads,
    versions,
    workspaces,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", workspaces.index, name="workspaces-index"),
    path("theme/", pages.set_theme, name="pages-set_theme"),
    path("slack/events/", events.receive, name="events-receive"),
    # A workspace and what is in it
    path("w/<slug:slug>/", workspaces.detail, name="workspaces-detail"),
    path("w/<slug:slug>/settings/", settings.edit, name="settings-edit"),
    path("w/<slug:slug>/slack/", slack.index, name="slack-index"),
    path("w/<slug:slug>/slack/test/", slack.test, name="slack-test"),
    path("w/<slug:slug>/jobs/resume/", jobs.resume, name="jobs-resume"),
    path("w/<slug:slug>/backfill/", backfill.index, name="backfill-index"),
    path("w/<slug:slug>/backfill/<int:pk>/", backfill.detail, name="backfill-detail"),
    path("w/<slug:slug>/notes/", notes.index, name="notes-index"),
    path("w/<slug:slug>/notes/<int:pk>/edit/", notes.edit, name="notes-edit"),
    path("w/<slug:slug>/notes/<int:pk>/delete/", notes.delete, name="notes-delete"),
    path("w/<slug:slug>/quarantine/", quarantine.index, name="quarantine-index"),
    path("w/<slug:slug>/quarantine/<int:pk>/accept/", quarantine.accept, name="quarantine-accept"),
    path("w/<slug:slug>/quarantine/<int:pk>/reject/", quarantine.reject, name="quarantine-reject"),
    path("w/<slug:slug>/sources/messages/<int:pk>/", quarantine.message, name="quarantine-message"),
    path("w/<slug:slug>/sources/people/<int:pk>/", quarantine.person, name="quarantine-person"),
    path("w/<slug:slug>/c/<str:slack_id>/", channels.detail, name="channels-detail"),
    path("w/<slug:slug>/c/<str:slack_id>/opt-in/", channels.opt_in, name="channels-opt_in"),
    path("w/<slug:slug>/c/<str:slack_id>/messages/", messages.index, name="messages-index"),
    path(
        "w/<slug:slug>/c/<str:slack_id>/t/<str:thread_ts>/", threads.detail, name="threads-detail"
    ),
    # A memory and its versions
    path("m/<int:pk>/edit/", memories.edit, name="memories-edit"),
    path("m/<int:pk>/versions/", memories.versions, name="memories-versions"),
    path("m/<int:pk>/proposal/", proposals.detail, name="proposals-detail"),
    path("m/<int:pk>/proposal/accept/", proposals.accept, name="proposals-accept"),
    path("m/<int:pk>/proposal/reject/", proposals.reject, name="proposals-reject"),
    path("v/<int:pk>/", versions.detail, name="versions-detail"),
    path("v/<int:pk>/restore/", versions.restore, name="versions-restore"),
    path("v/<int:pk>/pin/", versions.pin, name="versions-pin"),
    path("diff/<int:older>..<int:newer>/", versions.compare, name="versions-compare"),
]
