"""Addresses of the pages. `channels.detail` is named `channels-detail`."""

from django.urls import URLPattern, URLResolver, path

from memories.views import guide, settings
from memories.views.access import api_keys, invitations, people, preferences, setup
from memories.views.context import context
from memories.views.costs import costs
from memories.views.generate import backfill, jobs, updates
from memories.views.ingest import events, imports, messages, requests
from memories.views.memory import (
    archive,
    catch_up,
    channels,
    digests,
    lines,
    memories,
    proposals,
    rebuilds,
    review,
    threads,
    versions,
    workspaces,
)
from memories.views.notes import notes, trash
from memories.views.safety import quarantine
from memories.views.search import ask, search
from memories.views.sync import slack

urlpatterns: list[URLPattern | URLResolver] = [
    path("", workspaces.index, name="workspaces-index"),
    path("setup/", setup.index, name="setup-index"),
    path("setup/demo/", setup.demo, name="setup-demo"),
    path("setup/model/", setup.model, name="setup-model"),
    path("setup/import/", imports.index, name="imports-index"),
    path("setup/import/<int:pk>/", imports.detail, name="imports-detail"),
    path("invitations/<str:token>/", invitations.accept, name="invitations-accept"),
    path("settings/", preferences.edit, name="preferences-edit"),
    path("settings/digest/", digests.edit, name="digests-edit"),
    path("settings/feed/", digests.feed_address, name="digests-feed_address"),
    path("feeds/<str:token>.atom", digests.feed, name="digests-feed"),
    path("unsubscribe/<str:token>/", digests.unsubscribe, name="digests-unsubscribe"),
    path("help/", guide.index, name="guide-index"),
    path("memoryhub-agent", api_keys.agent, name="api_keys-agent"),
    path("theme/", preferences.set_theme, name="preferences-set_theme"),
    path("slack/events/", events.receive, name="events-receive"),
    path("slack/commands/", requests.commands, name="requests-commands"),
    path("slack/interactivity/", requests.interactivity, name="requests-interactivity"),
    # A workspace and what is in it
    path("w/<slug:slug>/", workspaces.detail, name="workspaces-detail"),
    path("w/<slug:slug>/catch-up/", catch_up.index, name="catch_up-index"),
    path("w/<slug:slug>/seen/", catch_up.mark_all, name="catch_up-mark_all"),
    path("w/<slug:slug>/seen/<int:pk>/", catch_up.mark, name="catch_up-mark"),
    path("w/<slug:slug>/settings/", settings.edit, name="settings-edit"),
    path("w/<slug:slug>/settings/probe/", settings.probe, name="settings-probe"),
    path("w/<slug:slug>/people/", people.index, name="people-index"),
    path("w/<slug:slug>/invitations/", invitations.index, name="invitations-index"),
    path("w/<slug:slug>/slack/", slack.index, name="slack-index"),
    path("w/<slug:slug>/slack/test/", slack.test, name="slack-test"),
    path("w/<slug:slug>/jobs/", jobs.index, name="jobs-index"),
    path("w/<slug:slug>/jobs/<int:pk>/", jobs.detail, name="jobs-detail"),
    path("w/<slug:slug>/jobs/cost/", costs.index, name="costs-index"),
    path("w/<slug:slug>/jobs/resume/", jobs.resume, name="jobs-resume"),
    path("w/<slug:slug>/context/", context.index, name="context-index"),
    path("w/<slug:slug>/context/download/", context.download, name="context-download"),
    path("w/<slug:slug>/backfill/", backfill.index, name="backfill-index"),
    path("w/<slug:slug>/backfill/<int:pk>/", backfill.detail, name="backfill-detail"),
    path("w/<slug:slug>/search/", search.index, name="search-index"),
    path("w/<slug:slug>/ask/", ask.index, name="ask-index"),
    path("w/<slug:slug>/keys/", api_keys.index, name="api_keys-index"),
    path("w/<slug:slug>/keys/<int:pk>/revoke/", api_keys.revoke, name="api_keys-revoke"),
    path("w/<slug:slug>/proposals/", review.index, name="review-index"),
    path("w/<slug:slug>/notes/", notes.index, name="notes-index"),
    path("w/<slug:slug>/notes/trash/", trash.index, name="trash-index"),
    path("w/<slug:slug>/notes/<int:pk>/", notes.detail, name="notes-detail"),
    path("w/<slug:slug>/notes/<int:pk>/mark/", notes.mark, name="notes-mark"),
    path(
        "w/<slug:slug>/notes/<int:pk>/versions/<int:number>/restore/",
        notes.restore,
        name="notes-restore",
    ),
    path("w/<slug:slug>/notes/<int:pk>/undelete/", trash.undelete, name="trash-undelete"),
    path("w/<slug:slug>/notes/<int:pk>/purge/", trash.purge, name="trash-purge"),
    path("w/<slug:slug>/notes/<int:pk>/edit/", notes.edit, name="notes-edit"),
    path("w/<slug:slug>/notes/<int:pk>/delete/", notes.delete, name="notes-delete"),
    path("w/<slug:slug>/quarantine/", quarantine.index, name="quarantine-index"),
    path("w/<slug:slug>/quarantine/<int:pk>/accept/", quarantine.accept, name="quarantine-accept"),
    path("w/<slug:slug>/quarantine/<int:pk>/reject/", quarantine.reject, name="quarantine-reject"),
    path("w/<slug:slug>/sources/messages/<int:pk>/", quarantine.message, name="quarantine-message"),
    path("w/<slug:slug>/sources/people/<int:pk>/", quarantine.person, name="quarantine-person"),
    path("w/<slug:slug>/c/<str:slack_id>/", channels.detail, name="channels-detail"),
    path("w/<slug:slug>/c/<str:slack_id>/follow/", channels.follow, name="channels-follow"),
    path("w/<slug:slug>/c/<str:slack_id>/opt-in/", channels.opt_in, name="channels-opt_in"),
    path("w/<slug:slug>/c/<str:slack_id>/generate/", updates.channel, name="updates-channel"),
    path("w/<slug:slug>/c/<str:slack_id>/messages/", messages.index, name="messages-index"),
    path("w/<slug:slug>/c/<str:slack_id>/threads/", threads.index, name="threads-index"),
    path(
        "w/<slug:slug>/c/<str:slack_id>/t/<str:thread_ts>/", threads.detail, name="threads-detail"
    ),
    # A memory and its versions
    path("m/<int:pk>/edit/", memories.edit, name="memories-edit"),
    path("m/<int:pk>/preview/", memories.preview, name="memories-preview"),
    path("m/<int:pk>/draft/", memories.draft, name="memories-draft"),
    path("m/<int:pk>/versions/", memories.versions, name="memories-versions"),
    path("m/<int:pk>/archive/", archive.index, name="archive-index"),
    path("m/<int:pk>/archive/restore/", archive.restore, name="archive-restore"),
    path("m/<int:pk>/generate/", updates.detail, name="updates-detail"),
    path("m/<int:pk>/lines/<int:position>/edit/", lines.edit, name="lines-edit"),
    path("m/<int:pk>/rebuild/", rebuilds.detail, name="rebuilds-detail"),
    path("m/<int:pk>/proposal/", proposals.detail, name="proposals-detail"),
    path("m/<int:pk>/proposal/accept/", proposals.accept, name="proposals-accept"),
    path("m/<int:pk>/proposal/reject/", proposals.reject, name="proposals-reject"),
    path("m/<int:pk>/proposal/<int:proposal>/", proposals.decide, name="proposals-decide"),
    path("v/<int:pk>/", versions.detail, name="versions-detail"),
    path("v/<int:pk>/sources/", versions.sources, name="versions-sources"),
    path("v/<int:pk>/restore/", versions.restore, name="versions-restore"),
    path("v/<int:pk>/name/", versions.name, name="versions-name"),
    path("v/<int:pk>/pin/", versions.pin, name="versions-pin"),
    path("diff/<int:older>..<int:newer>/", versions.compare, name="versions-compare"),
    path("diff/<int:older>..<int:newer>/undo/", versions.undo, name="versions-undo"),
]
