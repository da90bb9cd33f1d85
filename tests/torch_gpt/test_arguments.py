"""torch_gpt without training: arguments, model sizes, schedules, and what errors say."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "node" / "dataset"))
import megatron_mmap

torch = pytest.importorskip("torch")

TRAINER = Path(__file__).parents[2] / "roles" / "torch_gpt" / "files" / "torch_gpt"
sys.path.insert(0, str(TRAINER))
arguments, compiling, data, model, rules, train, world = (
    importlib.import_module(name)
    for name in ("arguments", "compiling", "data", "model", "rules", "train", "world")
)


def options(*words: str) -> Any:
    return arguments.parse(["--data-path", "/data/set", *words])


def test_defaults_are_the_demonstration() -> None:
    made = options()
    assert (made.model, made.num_layers, made.hidden_size, made.seq_length) == (
        "gpt2-tiny",
        4,
        128,
        128,
    )
    assert (made.zero_stage, made.precision, made.eval_iters) == (0, "fp32", 0)


def test_a_model_can_be_changed() -> None:
    made = options("--model", "gpt-2.7b", "--num-layers", "2", "--seq-length", "64")
    assert (made.num_layers, made.hidden_size, made.num_attention_heads, made.seq_length) == (
        2,
        2560,
        32,
        64,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--zero-stage", "4"], "--zero-stage: invalid choice"),
        (["--model", "gpt5"], "--model: invalid choice: 'gpt5'"),
        (["--train-iters", "0"], "--train-iters: 0 is not 1 or more"),
        (["--lr", "nan"], "--lr: nan is not a number of 0 or more"),
        (["--micro-batch-size", "x"], "--micro-batch-size: invalid int value: 'x'"),
        (["--zero", "1"], "unrecognized arguments: --zero 1"),
        (["--num-attention-heads", "3"], "--hidden-size 128 is not a multiple of --num-attention"),
        (["--tensor-parallel", "3"], "--num-attention-heads 4 is not a multiple of --tensor-par"),
        (["--pipeline-parallel", "3"], "--num-layers 4 is not a multiple of --pipeline-parallel"),
        (["--pipeline-parallel", "2", "--zero-stage", "1"], "goes with --zero-stage 0 only"),
        (["--pipeline-parallel", "2", "--eval-iters", "1"], "has no validation"),
        (["--tensor-parallel", "2", "--cross-entropy-chunks", "0"], "chunks 0 goes with --tensor"),
        (
            ["--tensor-parallel", "3", "--num-attention-heads", "3", "--hidden-size", "96"],
            "--micro-batch-size x --seq-length 512 is not a multiple of --tensor-parallel 3",
        ),
        (["--num-query-groups", "2"], "goes with a Llama only"),
        (["--model", "llama3-8b", "--num-query-groups", "3"], "32 is not a multiple of --num-quer"),
        (["--model", "llama3-8b", "--tensor-parallel", "16"], "--num-query-groups 8 is not a mult"),
        (["--mixed-precision", "autocast"], "goes with --precision bf16, fp16 or fp8"),
        (["--precision", "fp16", "--mixed-precision", "master_weights"], "autocast only"),
        (["--precision", "fp8", "--mixed-precision", "autocast"], "master_weights only"),
        (["--precision", "fp8", "--compile", "none"], "is slower than bf16; take block"),
        (["--gradient-reduction", "last_pass"], "go with --zero-stage 2 and 3 of --engine torch"),
        (["--grad-reduce-in-bf16"], "go with --zero-stage 2 and 3 of --engine torch; leave them"),
        (["--compile", "model", "--zero-stage", "2"], "goes with --zero-stage 0 and 1 only"),
        (["--compile", "model", "--pipeline-parallel", "2"], "take block"),
        (["--cuda-graphs", "--zero-stage", "1"], "--cuda-graphs goes with --zero-stage 0"),
        (["--cuda-graphs", "--precision", "fp16"], "does not go with fp16"),
        (["--async-tensor-parallel"], "needs --tensor-parallel of at least 2"),
        (["--engine", "deepspeed", "--cuda-graphs"], "does not go with --engine deepspeed"),
        (["--engine", "deepspeed", "--compile", "block"], "--compile does not go with --engine"),
        (["--engine", "deepspeed", "--tensor-parallel", "2"], "is data parallel only"),
    ],
)
def test_wrong_arguments_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(rules.TrainerError) as refusal:
        options(*words)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_data_path_is_required() -> None:
    with pytest.raises(rules.TrainerError, match="--data-path"):
        arguments.parse([])


def test_accumulation() -> None:
    assert rules.accumulation(options("--micro-batch-size", "2"), 4) == 1
    made = options("--micro-batch-size", "2", "--global-batch-size", "24")
    assert rules.accumulation(made, 4) == 3
    with pytest.raises(rules.TrainerError, match=r"24 is not a multiple of .* 2 x 5 ranks = 10"):
        rules.accumulation(made, 5)


def test_accumulation_counts_data_parallel_ranks_and_fills_the_pipeline() -> None:
    made = options("--micro-batch-size", "2", "--pipeline-parallel", "2", "--tensor-parallel", "2")
    with pytest.raises(rules.TrainerError, match=r"6 ranks are not a multiple of .* = 4"):
        rules.accumulation(made, 6)
    assert rules.accumulation(made, 8) == 2
    assert made.global_batch_size == 8
    made.global_batch_size = 4
    with pytest.raises(rules.TrainerError, match=r"1 passes, fewer than .* make it 8 or more"):
        rules.accumulation(made, 8)


@pytest.mark.parametrize("name", ["gpt2-tiny", "llama3-debug"])
def test_the_stages_of_a_pipeline_are_the_whole_model(name: str) -> None:
    shape = options(
        *("--num-layers", "4", "--hidden-size", "16", "--num-attention-heads", "2"),
        *("--seq-length", "8", "--model", name),
    )
    torch.manual_seed(0)
    whole = model.Decoder(shape, 64)
    whole.prepare(torch.device("cpu"))
    names = [name for name, _ in whole.named_parameters()]
    x = tokens = torch.randint(64, (2, 8))
    held: list[str] = []
    for stage in range(4):
        part = model.Decoder(shape, 64)
        part.load_state_dict(whole.state_dict())
        part.prepare(torch.device("cpu"))
        part.keep_stage(stage, 4)
        held += [name for name, _ in part.named_parameters()]
        x = part(x)
    tied = [] if shape.llama else ["token_embedding.weight"]  # at both ends
    assert sorted(held) == sorted([*names, *tied])
    torch.testing.assert_close(x, whole(tokens))


def test_every_option_is_explained() -> None:
    for action in arguments.parser()._actions:
        assert action.help, action.option_strings


@pytest.mark.parametrize(("rank", "said"), [("0", 1), ("1", 0)])
def test_only_rank_0_speaks_of_wrong_arguments(
    rank: str, said: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    waited: list[float] = []
    monkeypatch.setattr(arguments.time, "sleep", waited.append)
    with pytest.raises(SystemExit) as leaving:
        arguments.parse_or_exit(["--data-path", "x", "--global-batch-size", "3"])
    assert leaving.value.code == 2
    error = capsys.readouterr().err
    assert error.count("torch_gpt error: ") == error.count("\n") == said
    assert bool(waited) == (rank != "0")


def test_arguments_are_refused_before_torch_is_imported() -> None:
    command = [sys.executable, "-X", "importtime", str(TRAINER / "train.py"), "--train-iters", "0"]
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert " torch" not in done.stderr.replace("torch_gpt", "")


def parameters(name: str, vocab: int) -> int:
    with torch.device("meta"):
        made = model.Decoder(options("--model", name), vocab)
    return sum(parameter.numel() for parameter in made.parameters())


@pytest.mark.parametrize(
    ("name", "vocab", "count"),
    [
        ("gpt2-small", 50257, 124_439_808),  # Hugging Face's gpt2
        ("gpt2-medium", 50257, 354_823_168),  # and gpt2-medium
        ("llama3-8b", 128256, 8_030_261_248),  # Meta-Llama-3-8B
        ("llama3-70b", 128256, 70_553_706_496),  # and -70B
        # Llama-3.2-1B (1,235,814,400) and -3B (3,212,749,824), each with a matrix for its output
        ("llama3.2-1b", 128256, 1_235_814_400 + 128256 * 2048),
        ("llama3.2-3b", 128256, 3_212_749_824 + 128256 * 3072),
    ],
)
def test_known_parameter_counts(name: str, vocab: int, count: int) -> None:
    assert parameters(name, vocab) == count


@pytest.mark.parametrize(("name", "billions"), [("1.3b", 1.3), ("2.7b", 2.65), ("3.7b", 3.78)])
def test_large_models_have_the_size_of_their_names(name: str, billions: float) -> None:
    count = parameters(f"gpt-{name}", model.padded(50257))
    assert count / 1e9 == pytest.approx(billions, rel=0.02)


def test_padding() -> None:
    assert [model.padded(n) for n in (1, 128, 4096, 50257)] == [128, 128, 4096, 50304]


@pytest.mark.parametrize("name", ["gpt2-tiny", "llama3-debug"])
def test_first_loss_is_that_of_guessing(name: str) -> None:
    shape = ("--model", name, "--num-layers", "2", "--hidden-size", "64", "--seq-length", "32")
    made = model.Decoder(options(*shape), 512)
    made.prepare(torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for each, parameter in made.named_parameters():
            parameter.copy_(model.initial_value(each, parameter.shape, 2, generator))
    tokens = torch.randint(512, (4, 32), generator=generator)
    assert made(tokens, tokens.roll(-1, 1)).item() == pytest.approx(np.log(512), abs=0.1)


@pytest.mark.parametrize("name", ["gpt2-tiny", "llama3-debug"])
def test_a_position_sees_only_what_is_before_it(name: str) -> None:
    torch.manual_seed(0)
    shape = options(
        "--model", name, "--num-layers", "1", "--hidden-size", "64", "--seq-length", "8"
    )
    made = model.Decoder(shape, 128)
    made.prepare(torch.device("cpu"))
    x = torch.randn(16, 64)  # of two samples
    changed = x.clone()
    changed[5] = torch.randn(64)
    block = made.blocks["0"]
    same = torch.isclose(block(x, made.angles), block(changed, made.angles), atol=1e-6).all(dim=1)
    assert same.tolist() == [True] * 5 + [False] * 3 + [True] * 8


def test_learning_rate() -> None:
    made = options("--lr", "1", "--lr-warmup-iters", "10", "--train-iters", "110")
    rates = [train.learning_rate(step, made) for step in range(110)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == 1
    assert rates[60] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1, abs=0.001)


def test_garbage_is_collected_at_once_and_after_each_interval() -> None:
    def steps(interval: str) -> list[int]:
        made = options("--gc-interval", interval)
        return [step for step in range(1, 8) if train.collects(step, made)]

    assert steps("3") == [1, 4, 7]
    assert steps("1") == list(range(1, 8))
    assert steps("0") == []


@pytest.mark.parametrize(
    ("words", "device", "compile_"),
    [((), "cuda", "block"), ((), "cpu", "none"), (("--engine", "deepspeed"), "cuda", "none")],
)
def test_auto_is_what_the_device_and_the_engine_take(
    words: tuple[str, ...], device: str, compile_: str
) -> None:
    made = options(*words)
    train.settle(made, torch.device(device))
    assert made.compile == compile_
    assert (made.cross_entropy_chunks == 0) == (compile_ == "none")


@pytest.mark.parametrize("name", ["--cuda-graphs", "--async-tensor-parallel"])
def test_what_a_cpu_lacks_is_refused(name: str) -> None:
    made = options(name, "--tensor-parallel", "2")
    with pytest.raises(rules.TrainerError, match=f"{name} needs CUDA; leave it out"):
        train.settle(made, torch.device("cpu"))


def test_a_recorded_pass_runs_on_the_tensors_that_it_was_compiled_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA's streams and graphs are mocked, which a CPU does not have: the graph runs its pass."""
    for name in ("Stream", "CUDAGraph", "current_stream", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    seen = []

    def run(tokens: Any, targets: Any) -> Any:
        seen.append((tokens.data_ptr(), targets.data_ptr(), tokens.stride(), targets.stride()))
        return (tokens.sum() + targets.sum()).float()

    replayed = compiling.Replayed(run, warm_ups=3)
    losses = []
    for number in range(4):
        tokens = torch.full((2, 5), number)
        losses.append(replayed(tokens[:, :-1], tokens[:, 1:]).item())
    assert losses == [0, 16, 32, 48]
    assert len(seen) == 4
    assert len(set(seen)) == 1
    replayed(torch.ones(2, 4, dtype=torch.long), torch.ones(2, 4, dtype=torch.long))
    assert len(seen) == 4
    assert replayed.graph.replay.call_count == 2


def test_loss_scale() -> None:
    scale = train.LossScale(enabled=True)
    assert scale.overflowed(torch.tensor(float("inf")))
    assert scale.value == 2**15
    for _ in range(scale.growth):
        assert not scale.overflowed(torch.tensor(1.0))
    assert scale.value == 2**16
    off = train.LossScale(enabled=False)
    assert not off.overflowed(torch.tensor(float("nan")))
    assert off.value == 1


def test_samples_are_windows_in_a_shuffled_order() -> None:
    stream = np.arange(101, dtype=np.uint16)
    samples = data.Samples(stream, 10, seed=1, vocab=101, source="set")
    assert samples.count == 10
    tokens, targets = samples.batch(0, 10, torch.device("cpu"))
    assert sorted(tokens[:, 0].tolist()) == list(range(0, 100, 10))
    assert tokens[:, 0].tolist() != list(range(0, 100, 10))
    assert torch.equal(targets, tokens + 1)
    again, _ = data.Samples(stream, 10, 1, 101, "set").batch(5, 10, torch.device("cpu"))
    assert torch.equal(again[:5], tokens[5:])  # the next epoch follows, in another order
    with pytest.raises(rules.TrainerError, match=r"set\.bin holds token .* vocabulary of 50"):
        data.Samples(stream, 10, 1, 50, "set").batch(0, 10, torch.device("cpu"))


def test_vocabulary_comes_from_the_manifest(tmp_path: Path) -> None:
    prefix = str(tmp_path / "set_text_document")
    with pytest.raises(rules.TrainerError, match=r"missing.*give --vocab-size"):
        data.vocab_size(prefix)
    manifest = tmp_path / "dataset.json"
    manifest.write_text(json.dumps({"prefix": "set_text_document", "vocab_size": 300}))
    assert data.vocab_size(prefix) == 300
    with pytest.raises(rules.TrainerError, match="describes set_text_document, not other"):
        data.vocab_size(str(tmp_path / "other"))
    manifest.write_text("{")
    with pytest.raises(rules.TrainerError, match="give --vocab-size"):
        data.vocab_size(prefix)


def test_load_refuses_a_split_without_validation(tmp_path: Path) -> None:
    prefix = tmp_path / "set"
    with megatron_mmap.Writer(prefix) as writer:
        for _ in range(20):
            writer.add_document(list(range(100)))
    made = options("--split", "1", "--eval-iters", "2", "--vocab-size", "128")
    made.data_path, made.global_batch_size = str(prefix), 4
    with pytest.raises(megatron_mmap.DatasetError, match="valid part without documents"):
        data.load(made, 1, verify=True)
    made.split = "18,2,0"
    train_samples, valid_samples, counts = data.load(made, 1, verify=True)
    assert (train_samples.count, valid_samples.count) == (1799 // 128, 199 // 128)
    assert (counts["documents"], counts["train_documents"]) == (20, 18)


def test_errors_a_user_can_cure_are_one_sentence() -> None:
    cuda = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139 GiB. "
        "See documentation"
    )
    text = world.explain(cuda, None)
    assert "Tried to allocate 20.00 GiB" in text
    assert "lower --micro-batch-size" in text
    host = RuntimeError(
        "[enforce fail at alloc_cpu.cpp:116] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 8000000000 bytes. Error code 12 (Cannot allocate memory)\n"
    )
    text = world.explain(host, None)
    assert "you tried to allocate 8000000000 bytes" in text
    assert "\n" not in text
    lost = RuntimeError("[pair.cc:534] Connection closed by peer [10.0.0.2]:4711")
    assert "lost contact with another rank" in world.explain(lost, None)
    assert world.explain(megatron_mmap.DatasetError("set.idx is missing"), None) == (
        "set.idx is missing"
    )
    compiler = RuntimeError("Failed to find C compiler. Please specify via CC environment variable")
    text = world.explain(compiler, None)
    assert "install a C compiler" in text
    assert "--compile none" in text
    for words in ("No available kernel. Aborting execution.", "No viable backend for scaled_dot_"):
        text = world.explain(RuntimeError(f"{words}product_attention was found"), None)
        assert "take another, or auto" in text
    assert world.explain(ValueError("a bug"), None) is None


def test_the_example_lines_in_the_documentation_have_every_field() -> None:
    documented = train.__doc__ or ""
    for field in (
        *("first_step_s", "compile_s", "compiled", "from_cache", "compile_cache", "attention"),
        *("step", "samples_per_s", "step_time_ms", "loss", "grad_norm", "lr", "skipped", "nan"),
        *("memory_allocated_mib", "memory_reserved_mib", "memory_used_mib", "memory_rss_mib"),
    ):
        assert f"{field}=" in documented
