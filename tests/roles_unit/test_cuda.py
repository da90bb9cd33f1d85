"""roles/cuda's filters: what each toolkit is, by apt and by runfile."""

from roles.cuda.filter_plugins.cuda import by_apt, by_runfile


def test_each_toolkit_answers_for_itself_and_stays_in_its_folder() -> None:
    one = by_apt(["11.3"])[0]
    assert one["argv"][0] == "/usr/local/cuda-11.3/bin/nvcc"
    assert one["make"][-1] == "cuda-nvcc-11-3"
    runfiles = {"10.2": {"url": "https://example.org/c.run", "sha256": "ab"}}
    two = by_runfile(["10.2"], runfiles, {"10.2": "https://mirror.example.org/c.run"})[0]
    assert two["download"]["url"] == "https://mirror.example.org/c.run"
    assert "--installpath=/usr/local/cuda-10.2" in two["make"]
    assert "/etc/ld.so.conf.d/cuda-10-2.conf" in two["leftovers"]
