"""A thread: its memory, and what was said in it."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse

from memories.models import Memory, Message
from memories.rules.memory import MemoryScope
from memories.views.access import UserRequest, moment_or_404, open_channel
from memories.views.messages import first_words, read_stretch, show_messages
from memories.views.pages import render_page
from memories.views.shown import rail_of, show_one, versions_of, with_origin


@login_required
def detail(request: UserRequest, slug: str, slack_id: str, thread_ts: str) -> HttpResponse:
    place, channel = open_channel(request, slug, slack_id)
    moment_or_404(thread_ts)
    memory = Memory.objects.filter(
        channel=channel, scope=MemoryScope.THREAD, thread_ts=thread_ts
    ).first()
    readable = Message.objects.visible_to(place.reader).filter(channel=channel)
    messages = readable.filter(thread_ts=thread_ts).select_related("author")
    root = readable.filter(ts=thread_ts).select_related("author")
    found = messages | root
    after = request.GET.get("after", "")
    stretch = read_stretch(found, after=after or "0.0")
    if not stretch.messages and (memory is None or not versions_of(memory, place).exists()):
        raise Http404
    current = None
    if memory is not None and memory.current_id is not None:
        current = with_origin(memory.versions.filter(pk=memory.current_id)).first()
    shown = show_one(current, place)
    numbers = {
        chip.ts: chip.number for line in (shown.lines if shown else ()) for chip in line.chips
    }
    rows = show_messages(stretch.messages, place, channel, numbers)
    return render_page(
        request,
        "threads/detail.html",
        {
            "place": place,
            "channel": channel,
            "thread_ts": thread_ts,
            "words": first_words(root.filter(state=Message.State.LIVE), place).get(thread_ts, ""),
            "memory": memory,
            "something_waits": found.waiting_in_threads().exists(),
            "shown": shown,
            "rail": rail_of(memory, place),
            "rows": rows,
            "newer": rows[-1].message.ts if rows and stretch.has_newer else "",
            "after": after,
            "min_messages": place.workspace.memory_settings.thread_min_messages,
        },
    )
