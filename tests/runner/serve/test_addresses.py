"""What the live page answers, and what it does not."""

import pytest

from runner.serve.addresses import MOST_LETTERS, RefusalError, wish

TOKEN = "a-token_of-letters"
HERE = ["127.0.0.1:8000"]
RUN = "zero_stage=0,nodes=2-3a7c105c/repeat1/attempt2"


def refused(method: str, address: str, hosts: list[str], token: str = TOKEN) -> int:
    with pytest.raises(RefusalError) as error:
        wish(method, address, hosts, token)
    return error.value.status


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_knows_the_token_has_the_page(method: str) -> None:
    assert wish(method, f"/{TOKEN}/", HERE, TOKEN).kind == "page"
    assert wish(method, f"/{TOKEN}/?again", HERE, TOKEN).kind == "page"
    assert wish(method, f"/{TOKEN}/now", HERE, TOKEN).kind == "now"


@pytest.mark.parametrize(
    "file",
    [f"{RUN}/{name}" for name in ("run.json", "launch.sh", "outcome.json")]
    + [f"{RUN}/nodes/0001-n2/{name}" for name in ("launcher.log", "samples.csv", "done.json")],
)
def test_a_runs_files_have_addresses(file: str) -> None:
    asked = wish("GET", f"/{TOKEN}/{file.replace('=', '%3D').replace(',', '%2C')}", HERE, TOKEN)
    assert (asked.kind, asked.file) == ("file", file)


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "BREW", ""]
)
def test_nothing_but_reading(method: str) -> None:
    assert refused(method, f"/{TOKEN}/", HERE) == 405


@pytest.mark.parametrize(
    "address",
    [
        *("/", "", "//", "/wrong/", f"/{TOKEN}", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"//{TOKEN}/"),
        *(f"/{TOKEN.upper()}/", f"http://127.0.0.1/{TOKEN}/", f"/\u00e9{TOKEN}/", "/\udcff/"),
        f"/{TOKEN}/" + "x" * MOST_LETTERS,
    ],
)
def test_who_does_not_know_it_is_told_nothing(address: str) -> None:
    assert refused("GET", address, HERE) == 404


@pytest.mark.parametrize(
    "file",
    [
        *("campaign.json", "lock", "events.jsonl", "../campaign.json", "x", RUN, f"{RUN}/"),
        *(f"{RUN}/../../x/repeat1/attempt1/run.json", "../repeat1/attempt1/run.json"),
        *(
            "%2e%2e/repeat1/attempt1/run.json",
            "..%2f..%2fetc/passwd",
            f"{RUN}/nodes/../launcher.log",
        ),
        *(
            f"{RUN}/nodes/0001-n2/..",
            f"{RUN}/run.json%00",
            f"{RUN}/%0arun.json",
            f"./{RUN}/run.json",
        ),
        *(
            f"{RUN}/nodes/%2e%2e/launcher.log",
            f"{RUN}/halt",
            f"{RUN}//run.json",
            f"/{RUN}/run.json",
        ),
    ],
)
def test_no_other_file_has_an_address(file: str) -> None:
    assert refused("GET", f"/{TOKEN}/{file}", HERE) == 404


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:65535", "[::1]:8000"]
)
def test_this_machine_may_be_named_with_any_port_of_a_tunnel(host: str) -> None:
    assert wish("GET", f"/{TOKEN}/", [host], TOKEN).kind == "page"


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["127.0.0.1", "127.0.0.1"],
        *(
            [each]
            for each in ("", "evil.example", "127.0.0.1.evil.example", "localhost.", "0.0.0.0")
        ),
        *(
            [each]
            for each in ("evil.example:8000", "127.0.0.1:8000@evil", "[::1", "127.0.0.1:\u0661")
        ),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(hosts: list[str]) -> None:
    assert refused("GET", f"/{TOKEN}/", hosts) == 421
    assert refused("GET", "/wrong/", hosts) == 421
