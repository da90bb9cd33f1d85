"""Make a dataset on this node: download, decompress, prepare, put in place.

    dataset.stage:stage     make each dataset; answer what was downloaded for each

Its spec: root, datasets (name to entry of the catalogue), sources (address to where it is had
from), python (of the tools' environment, in which SENDS run), systems (the folder of the installed
trainers).

What is on its way is in ``<root>/.work/<name>`` until the dataset is in place; so another run
goes on with the downloads, and does not decompress or extract again what is whole.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from typing import Any

from node import answer, bootstrap, fetch, manifest_folders, parsing
from node.answer import ProgramError
from node.checksum import sha256
from node.dataset import inspection, megatron_mmap, unpack
from node.dataset.tokenizer_form import tokenizer_form
from node.files import read_text, write_text
from node.program_output import FULL
from node.schema import Mapped, Text, Whole
from node.validated_text import FileName

SENDS = ("node.dataset.build_corpus", "node.dataset.tokenize_text")
SCHEMA = 1
VOCABULARY = Mapped(Text(lines=True), Whole(), most=10_000_000)
EOD = "<|endoftext|>"
TAIL_LINES = 20


class Stage:
    """One dataset on its way."""

    def __init__(self, spec: dict[str, Any], name: str) -> None:
        self.spec, self.name = spec, FileName(name)
        self.entry: dict[str, Any] = spec["datasets"][name]
        self.root: str = spec["root"]
        self.work = os.path.join(self.root, ".work", name)
        self.out = os.path.join(self.work, "out")
        self.inputs: dict[str, dict[str, Any]] = {}
        self.received = self.resumed = 0

    def run(self) -> dict[str, Any]:
        """Make it and put it in place; what came from where."""
        manifest_folders.refuse_foreign(
            os.path.join(self.root, self.name), self.name, manifest_folders.State(self.root)
        )
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        facts = self._corpus() if "corpus" in self.entry else self._from_inputs()
        manifest = self._manifest(facts)
        text = json.dumps(manifest, indent=2) + "\n"
        addresses = [file["address"] for file in self.entry.get("inputs", [])]
        manifest_folders.move_in(self.root, self.name, self.out, text.encode(), addresses)
        shutil.rmtree(self.work)
        return {"received": self.received, "resumed": self.resumed, "inputs": self.inputs}

    # The steps

    def _corpus(self) -> dict[str, Any]:
        """Text that the machine has already."""
        corpus = os.path.join(self.work, "corpus")
        spec = {**self.entry["corpus"], "output": corpus, "name": self.name, "with_text": True}
        facts = self._tool("build_corpus:make", spec)
        os.unlink(os.path.join(corpus, manifest_folders.MANIFEST))
        shutil.rmtree(self.out)
        os.rename(corpus, self.out)
        return facts

    def _from_inputs(self) -> dict[str, Any]:
        """Text or tokens that are downloaded."""
        for source in self.entry["inputs"]:
            self._fetch(source)
        vocab, merges = self.entry["vocab"], self.entry["merges"]
        for file, of in ((vocab, "vocab.json"), (merges, "merges.txt")):
            os.link(self._input(file), os.path.join(self.out, of))
        for file in self.entry.get("keep", []):
            os.link(self._input(file), os.path.join(self.out, file))
        if "tokens" in self.entry:
            prefix = self.entry["tokens"]
            for end in (".bin", ".idx"):
                os.link(self._input(prefix + end), self._tokens() + end)
            facts = self._vocabulary()
        else:
            texts = self._wiki() if "wiki" in self.entry else [self._input(self.entry["text"])]
            facts = self._preprocess(texts) if self.entry.get("program") else self._tokenise(texts)
        return {**facts, "recipe": inspection.recipe(self.entry), "source": self._source()}

    def _fetch(self, entry: dict[str, Any]) -> None:
        """One file, as its server has it; decompressed, where the catalogue says so."""
        folder = os.path.join(self.work, "downloads")
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, entry["file"])
        stated = entry.get("sha256", "")
        why = "the catalogue"
        if stated == "recorded":
            state = manifest_folders.State(self.root)
            stated = state.content["recorded"].get(entry["address"], "")
            why = "its first download, which was recorded,"
        source = self.spec["sources"].get(entry["address"], entry["address"])
        download = fetch.Download(source, target, stated, entry.get("md5", ""), why).run()
        self.received += download.received
        self.resumed += download.resumed
        self.inputs[entry["file"]] = {
            "address": entry["address"],
            "bytes": os.path.getsize(target),
            "sha256": download.sha256,
        }
        if entry.get("unpack") and not os.path.exists(self._input(entry["gives"])):
            fetch.say(f"decompressing {entry['file']}")
            unpack.unpack(
                target, self._input(entry["gives"]), entry["unpack"], entry.get("member", "")
            )

    def _wiki(self) -> list[str]:
        """WikiExtractor's files, in order; the folders that the entry keeps go with the dataset."""
        wiki = self.entry["wiki"]
        extracted = os.path.join(self.work, "extracted")
        if not os.path.isdir(extracted):
            partial = extracted + ".part"
            shutil.rmtree(partial, ignore_errors=True)
            argv = [self.spec["python"], "-m", "wikiextractor.WikiExtractor"]
            argv += [self._input(wiki["dump"]), *wiki["options"]]
            argv += ["--processes", str(_cores()), "-o", partial]
            self._run(argv, "WikiExtractor", self.work)
            os.rename(partial, extracted)
        for folder in wiki["keep"]:
            for path in sorted(glob.glob(os.path.join(glob.escape(extracted), folder, "wiki_*"))):
                target = os.path.join(self.out, "text", os.path.relpath(path, extracted))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.link(path, target)
        return sorted(glob.glob(os.path.join(glob.escape(extracted), "*", "wiki_*")))

    def _tokenise(self, texts: list[str]) -> dict[str, Any]:
        """With our own program, which gives the bytes that Megatron's gives."""
        fetch.say(f"tokenizing {self.name}")
        return self._tool(
            "tokenize_text:tokenize",
            {
                "texts": texts,
                "key": self.entry["tokenise"]["key"],
                "append_eod": self.entry["tokenise"]["append_eod"],
                "vocab": os.path.join(self.out, "vocab.json"),
                "merges": os.path.join(self.out, "merges.txt"),
                "prefix": self._tokens(),
            },
        )

    def _preprocess(self, texts: list[str]) -> dict[str, Any]:
        """With a trainer's own program, in its own environment, from its own tree."""
        chosen = self.entry["program"]
        home = os.path.join(self.spec["systems"], chosen["system"], chosen["pin"])
        python = os.path.join(home, "env", "bin", "python3")
        if not os.path.exists(python):
            raise fetch.FetchError(
                f"{self.name} is to be made by {chosen['system']}/{chosen['pin']}, which is not on "
                "this node; set that system up with `trainbench setup`, or take the dataset out of "
                "dataset_preprocess"
            )
        text = texts[0]
        if len(texts) > 1:
            text = os.path.join(self.work, "all.jsonl")
            with open(text, "wb") as stream:
                for path in texts:
                    with open(path, "rb") as text_file:
                        shutil.copyfileobj(text_file, stream)
        prefix = os.path.join(self.work, "made")
        values = {
            "text": text,
            "vocab": os.path.join(self.out, "vocab.json"),
            "merges": os.path.join(self.out, "merges.txt"),
            "prefix": prefix,
            "processes": str(_cores()),
        }
        argv = [word.format(**values) for word in chosen["argv"]]
        path = f"{os.path.dirname(python)}:{os.environ.get('PATH', os.defpath)}"
        self._run(
            [python, *argv],
            chosen["system"],
            os.path.join(home, "src"),
            {**os.environ, "PATH": path},
        )
        for end in (".bin", ".idx"):
            # _text_document, or _text_sentence where sentences were split
            files = glob.glob(f"{glob.escape(prefix)}_*{end}")
            if len(files) != 1:
                raise fetch.FetchError(
                    f"{chosen['system']} left {len(files)} files {prefix}_*{end}, not one; correct "
                    "its argv in dataset_preprocess"
                )
            os.replace(files[0], self._tokens() + end)
        if text != texts[0]:
            os.unlink(text)
        return self._vocabulary()

    # What they share

    def _input(self, file: str) -> str:
        """Where an input lies: as it came, or what it was decompressed to."""
        return os.path.join(self.work, "downloads", file)

    def _tokens(self) -> str:
        return os.path.join(self.out, f"{self.name}_text_document")

    def _source(self) -> str:
        return ", ".join(source["address"] for source in self.entry["inputs"])

    def _vocabulary(self) -> dict[str, Any]:
        vocabulary = parsing.load(os.path.join(self.out, "vocab.json"), VOCABULARY) or {}
        return {"vocab_size": len(vocabulary), "eod_token": vocabulary.get(EOD)}

    def _tool(self, entry: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Run one of our programs in the tools' environment; its answer."""
        argv = [self.spec["python"], "-I", *bootstrap.command(f"dataset.{entry}")]
        message = bootstrap.message(f"dataset.{entry}", spec)
        output = self._run(argv, entry.partition(":")[0], self.work, stdin=message)
        facts: dict[str, Any] = answer.read(output)
        return facts

    def _run(
        self,
        argv: list[str],
        title: str,
        folder: str,
        env: dict[str, str] | None = None,
        stdin: str = "",
    ) -> str:
        """Run a program; its output, or FetchError with the end of what it said."""
        completed = subprocess.run(
            argv, cwd=folder, env=env, input=stdin, capture_output=True, text=True, errors="replace"
        )
        if completed.returncode != 0:
            lines = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[
                -TAIL_LINES:
            ]
            more = ":\n" if len(lines) > 1 else ": "
            tail = "\n".join(lines)
            raise fetch.FetchError(f"{title} ended with {completed.returncode}{more}{tail}")
        return completed.stdout

    def _manifest(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Link the further names, and describe all that is there."""
        for alias, file in inspection.aliases(self.name, self.entry).items():
            path = os.path.join(self.out, alias)
            if not os.path.exists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.link(os.path.join(self.out, file), path)
        if inspection.has_text(self.entry):
            vocabulary = parsing.load(os.path.join(self.out, "vocab.json"), VOCABULARY) or {}
            form = tokenizer_form(vocabulary, read_text(os.path.join(self.out, "merges.txt")))
            contents = {inspection.TOKENIZER: form, inspection.ENDS: {"eos_token": EOD}}
            for name, content in contents.items():
                text = json.dumps(content, ensure_ascii=False)
                write_text(os.path.join(self.out, name), f"{text}\n")
        files = sorted(
            os.path.relpath(os.path.join(folder, file_name), self.out)
            for folder, _, names in os.walk(self.out)
            for file_name in names
        )
        digests: dict[int, str] = {}
        checksums = {}
        for file in files:
            path = os.path.join(self.out, file)
            inode = os.stat(path).st_ino
            if inode not in digests:
                digests[inode] = sha256(path)
            checksums[file] = digests[inode]
        tokens = self._tokens()
        summary = megatron_mmap.check(tokens)
        return {
            "schema": SCHEMA,
            "name": self.name,
            "prefix": os.path.basename(tokens),
            "documents": summary.documents,
            "sequences": summary.sequences,
            "tokens": summary.tokens,
            "dtype": summary.dtype,
            **facts,
            "bytes": {file: os.path.getsize(os.path.join(self.out, file)) for file in files},
            "sha256": checksums,
            "inputs": self.inputs,
            "recorded": {
                source["address"]: self.inputs[source["file"]]["sha256"]
                for source in self.entry.get("inputs", [])
                if source.get("sha256") == "recorded"
            },
        }


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def stage(spec: dict[str, Any]) -> dict[str, Any]:
    """Stage each dataset; what each took."""
    answers = {}
    name = ""
    try:
        with manifest_folders.locked(spec["root"]):
            for name in spec["datasets"]:
                answers[name] = Stage(spec, name).run()
    except (ProgramError, megatron_mmap.DatasetError) as error:
        raise ProgramError(f"dataset {name}: {error}") from None
    except OSError as error:
        reason = f"{error}; see that this user can write to {spec['root']}"
        if error.errno in FULL:
            reason = str(fetch.full(spec["root"], name, None))
        raise ProgramError(f"dataset {name}: {reason}") from None
    return answers
