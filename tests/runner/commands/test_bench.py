"""The command line of bench."""

import pytest

from runner.__main__ import main, parser


@pytest.mark.parametrize("words", [["matrix.yaml"], ["-m", "matrix.yaml"]])
def test_a_matrix_is_named_with_or_without_an_option(words: list[str]) -> None:
    chosen = parser().parse_args(["bench", *words])
    assert str(chosen.file or chosen.matrix) == "matrix.yaml"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one of the arguments FILE -m/--matrix is required"),
        (["a.yaml", "-m", "b.yaml"], "argument -m/--matrix: not allowed with argument FILE"),
    ],
)
def test_no_matrix_and_two_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *words])
    assert said in capsys.readouterr().err
