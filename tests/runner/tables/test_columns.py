"""Each column has a reader."""

from runner.base.paths import PROJECT
from runner.tables.columns import COLUMNS, PEOPLE

WRITERS = ("runner/tables/columns.py", "runner/figures/cell_figures.py")


def test_each_column_is_named_by_code_or_a_document() -> None:
    """206 columns had grown, of which 78 nobody read."""
    files = [
        *PROJECT.glob("docs/**/*.md"),
        *PROJECT.glob("matrices/**/*.yaml"),
        *PROJECT.glob("runner/**/*.py"),
        *PROJECT.glob("templates/**/*.j2"),
    ]
    read = "\n".join(
        path.read_text(encoding="utf-8")
        for path in files
        if path.relative_to(PROJECT).as_posix() not in WRITERS
    )
    assert [key for key in COLUMNS if key not in PEOPLE and key not in read] == []
