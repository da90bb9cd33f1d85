"""On real nodes: init asks them, records their host keys after a yes, and validate passes."""

import argparse
from pathlib import Path

import pytest

from runner.__main__ import main, parser
from runner.base.errors import UserError
from runner.enrol.new_inventory import Conversation, make
from tests.cluster.fixtures import RealNodes
from tests.roles.play import play

pytestmark = pytest.mark.cluster


def test_two_nodes_become_an_inventory_that_validate_passes(
    tmp_path: Path, real_nodes: RealNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    group = real_nodes(2)
    known, config, folder = tmp_path / "known_hosts", tmp_path / "ssh_config", tmp_path / "mine"
    config.write_text(
        f"Host *\n  IdentityFile {group.cluster.directory / 'id_ed25519'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n"
    )
    hosts = [f"gpu{at:02}={node.address}" for at, node in enumerate(group.nodes, 1)]
    words = ["init", str(folder), "--user", "root", "--ssh-config", str(config), "--hosts", *hosts]

    # Without a yes nothing is recorded, nor written, and the fingerprints are shown.
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "SHA256:" in shown.out
    assert "the host keys of gpu01, gpu02 are not recorded, so nothing was written" in shown.err
    assert not known.exists()
    assert not folder.exists()
    chosen: argparse.Namespace = parser().parse_args(words)
    with pytest.raises(UserError, match="are not recorded"):
        make(chosen, Conversation(lambda line: None, lambda question: "no"))

    cluster = make(chosen, Conversation(lambda line: None, lambda question: "y"))
    assert cluster.addresses == {"gpu01": group.nodes[0].address, "gpu02": group.nodes[1].address}
    assert cluster.env == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert known.read_text().count(" ssh-ed25519 ") == 2
    assert known.stat().st_mode & 0o777 == 0o600
    ran = play(folder, playbook="validate.yml")
    assert ran.rc == 0, ran.out

    # A node whose key is another than the recorded one is never asked, nor recorded.
    first, second = known.read_text().splitlines()
    known.write_text(f"{first}\n{second.split()[0]} {' '.join(first.split()[1:])}\n")
    assert main([*words, "--overwrite", "--record-host-keys"]) == 2
    assert "gpu02 " in (said := capsys.readouterr().err)
    assert "another key is recorded here than the one that answers" in said
    assert "ssh-keygen -R" in said
