"""All documents: those of docs/ with their tables, and those that are written from the code.

The site, the wheel, and `trainbench docs` of a checkout have the same.
"""

import json

from tools.site.links import ROOT, Sheet
from tools.site.matrices import gallery
from tools.site.reference import commands, table_columns
from tools.site.roles import roles
from tools.site.schemas import schemas
from tools.site.tables import with_tables


def documents() -> dict[str, str]:
    """Return the text of each file of the documents, by its path below docs/."""
    texts = {
        f"schemas/{name}": json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }
    for path in (ROOT / "docs").rglob("*.md"):
        page = Sheet(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        texts[page.origin.removeprefix("docs/")] = with_tables(page).text
    for page in (gallery(), commands(), table_columns(), *roles()):
        texts[page.origin.removeprefix("docs/")] = page.text
    return texts
