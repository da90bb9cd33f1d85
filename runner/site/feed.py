"""The regressions as an Atom feed (RFC 4287). Pure."""

import time
import uuid
from xml.etree import ElementTree

from node.printable import printable
from runner.history.regressions import NAMESPACE, Regression
from runner.site import places
from runner.site.whole import WholeSite

ATOM = "http://www.w3.org/2005/Atom"  # the name of its elements; nothing is fetched from there
MOST_ENTRIES = 100
_NEVER = 0.0


def feed(site: WholeSite, url: str = "") -> str:
    """Write the feed; its links are relative to it, or begin with `url`, where the site will be.

    An entry's id stays the same whatever comes later, and its date is its campaign's.
    """
    base = f"{url.rstrip('/')}/" if url else ""
    root = ElementTree.Element("feed", xmlns=ATOM)
    newest = max((each.began for each in site.campaigns if each.began), default=_NEVER)
    _text(root, "title", "Regressions")
    _text(root, "id", f"urn:uuid:{uuid.uuid5(NAMESPACE, f'feed {base}')}")
    _text(root, "updated", _time(newest))
    _text(ElementTree.SubElement(root, "author"), "name", "TrainBench")
    ElementTree.SubElement(root, "link", rel="self", href=f"{base}{places.FEED}")
    ElementTree.SubElement(root, "link", rel="alternate", href=f"{base}{places.INDEX}")
    for each in site.regressions[:MOST_ENTRIES]:
        _entry(root, site, each, base)
    ElementTree.indent(root, " ")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _entry(root: ElementTree.Element, site: WholeSite, each: Regression, base: str) -> None:
    entry = ElementTree.SubElement(root, "entry")
    _text(entry, "title", f"{each.word}: {each.sentence}")
    _text(entry, "id", each.id)
    _text(entry, "updated", _time(each.first.began or _NEVER))
    ElementTree.SubElement(entry, "link", rel="alternate", href=f"{base}{places.cell(each.series)}")
    campaign, before = site.by_id[each.first_id].name, site.by_id[each.last_id].name
    lines = [f"On {each.series.machine}, in {campaign} after {before}."]
    lines += [f"{key}: {was}, then {now}" for key, was, now in each.differs]
    lines.append("It is open." if each.open else "A later campaign is back.")
    _text(entry, "content", "\n".join(map(printable, lines)), type="text")


def _text(parent: ElementTree.Element, name: str, text: str, **attributes: str) -> None:
    shown = "\n".join(map(printable, text.split("\n")))
    ElementTree.SubElement(parent, name, attributes).text = shown


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
