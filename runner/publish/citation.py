"""How a publication is cited: CITATION.cff 1.2.0 (citation-file-format.github.io). Pure."""

from typing import Any

import yaml

from runner.base.escapes import TerminalLine
from runner.publish.publication import Publication

NO_AUTHORS = "CITATION.cff needs an author: --author 'Family, Given', or --entity"


def citation(publication: Publication) -> str:
    """Write the file. It has a person for each author, and else the entity as author.

    Of a publication without either nothing is written: the format wants one, and none is made up.
    """
    authors = [_author(each) for each in publication.authors]
    if not authors and publication.entity:
        authors = [{"name": _line(publication.entity)}]
    if not authors:
        return ""
    count = len(publication.refused)
    cells = len(publication.table)
    mark = f" {count} of its {cells} cells are not publishable by its own measure." if count else ""
    devices = ", ".join(publication.devices)
    content: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these measurements, please cite them as below.",
        "type": "dataset",
        "title": _line(f"{publication.name}: training {publication.theme}"),
        "abstract": _line(
            f"{cells} cells{f' on {devices}' if devices else ''}, measured by TrainBench"
            f" {publication.settings.trainbench}, with logs and commands.{mark}"
        ),
        "authors": authors,
        "keywords": ["benchmark", "distributed training"],
    }
    if publication.day:
        content["date-released"] = publication.day
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    return text


def _author(words: str) -> dict[str, str]:
    """Read `Family, Given`, or the name of an entity."""
    family, comma, given = (part.strip() for part in words.partition(","))
    if comma and family and given:
        return {"family-names": _line(family), "given-names": _line(given)}
    return {"name": _line(words.strip())}


def _line(text: str) -> str:
    return str(TerminalLine(text))
