"""Where a message stands in Slack itself."""


def permalink(domain: str, channel_id: str, ts: str, thread_ts: str = "") -> str:
    """``acme``, ``C1``, ``1700000000.123456`` as the address that Slack's "Copy link" gives.

    A reply also names its thread. "" when the workspace's domain is not known.
    """
    if not domain:
        return ""
    address = f"https://{domain}.slack.com/archives/{channel_id}/p{ts.replace('.', '')}"
    if thread_ts and thread_ts != ts:
        address += f"?thread_ts={thread_ts}&cid={channel_id}"
    return address
