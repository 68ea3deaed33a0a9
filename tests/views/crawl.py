"""Crawl all pages that a reader can reach."""

import re

from django.test import Client


def pages(client: Client) -> dict[str, str]:
    """What a reader comes to by following links from the front page, by address.

    All but the many addresses that show the same messages around another one, and those that only
    ask whether there is anything new.
    """
    results: dict[str, str] = {}
    ahead = ["/"]
    while ahead:
        path = ahead.pop()
        response = client.get(path, follow=True)
        assert response.status_code == 200, path
        results[path] = response.content.decode()
        links = re.findall(r'(?:href|hx-get)="(/[^"#]*)', results[path])
        again = re.compile(r"\?around=|[?;]seen=")
        inside = {link.replace("&amp;", "&") for link in links if not again.search(link)}
        ahead += {link for link in inside if re.match(r"/[wmv]/|/diff/", link)} - {*results, *ahead}
    return results
