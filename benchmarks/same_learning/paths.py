"""The fast paths, each a few options of the trainer, and what a machine lacks for one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Options = Mapping[str, str | int | float | bool]

# What the paths are held against: nothing compiled, fused, in pieces or rounded.
PLAIN: Options = {
    **{"precision": "fp32", "compile": "none", "attention_backend": "math"},
    **{"cross_entropy_chunks": 0, "adamw": "foreach"},
}
# The trainer lets fp32's matrix products round to TF32, which this library variable forbids.
EXACT = {"NVIDIA_TF32_OVERRIDE": "0"}
# What every run has besides. A sample is short on a CPU, where a run is to end within a minute.
COMMON: Mapping[str, Options] = {
    "cuda": {"micro_batch_size": 4, "global_batch_size": 8, "lr": 3e-4, "lr_warmup_iters": 40},
    "cpu": {"micro_batch_size": 4, "global_batch_size": 8, "lr": 1e-3, "seq_length": 64},
}
MODELS = {"cuda": ("gpt2-small", "llama3-debug"), "cpu": ("gpt2-tiny", "llama3-debug")}
_GPU_ALONE = {"cudnn", "flash", "cuda_graphs", "async_tensor_parallel", "fp8"}


@dataclass(frozen=True)
class Machine:
    """What there is: `devices` of the kind that is asked for; on a CPU, places for ranks.

    `capability` is CUDA's, of the weakest device. `compiler`: torch.compile has what it needs.
    """

    device: str
    devices: int
    name: str
    torch: str
    capability: float
    torchao: bool
    compiler: bool

    @property
    def title(self) -> str:
        """The machine in a few words."""
        return f"{self.devices} x {self.name}, torch {self.torch}"


@dataclass(frozen=True)
class Path:
    """One way to train: its options, all but the common ones, on so many ranks.

    `fault` is what is planted in the trainer; `wrong` says that it ought to differ.
    """

    name: str
    options: Options = field(default_factory=lambda: PLAIN)
    ranks: int = 1
    fault: str | None = None
    wrong: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def arithmetic(self) -> str:
        """What it computes in, as noise.LIMITS has it."""
        if self.options["precision"] == "fp8":
            return "fp8"
        return "fp32" if self.options["precision"] == "fp32" and self.environ else "16 bits"

    def lacks(self, machine: Machine) -> str:
        """Say what the machine lacks for it, or nothing."""
        words = {*self.options, *map(str, self.options.values())}
        if self.ranks > machine.devices:
            return f"needs {self.ranks} devices, has {machine.devices}"
        if machine.device == "cpu" and words & _GPU_ALONE:
            return "needs a GPU"
        if words & {"block", "model"} and not machine.compiler:
            return "torch.compile needs a C++ compiler and Python's headers"
        if "fp8" in words and not machine.torchao:
            return "needs torchao"
        if "fp8" in words and machine.capability < 8.9:
            return "needs CUDA of compute capability 8.9 or more"
        return ""


def _path(name: str, ranks: int = 1, **options: str | int | float | bool) -> Path:
    return Path(name, {**PLAIN, **options}, ranks, environ=EXACT)


def _bf16(name: str, ranks: int = 1, **options: str | int | float | bool) -> Path:
    return _path(name, ranks, precision="bf16", mixed_precision="master_weights", **options)


_GROUP: Options = {"compile": "block", "tensor_parallel": 2, "cross_entropy_chunks": 1}
REFERENCE = Path("fp32 eager", environ=EXACT)
# One thing at a time, in fp32 where it can; then in bf16; then what is on by default.
PATHS: Sequence[Path] = (
    Path("TF32"),
    _path("compile block", compile="block"),
    _path("compile model", compile="model"),
    _path("attention auto", attention_backend="auto"),
    _path("adamw fused", adamw="fused"),
    _path("cross entropy in pieces", cross_entropy_chunks=4),
    _path("checkpointing selective", activation_checkpointing="selective"),
    _path("checkpointing full", activation_checkpointing="full"),
    _path("zero_stage 0, 2 ranks", 2),
    _path("zero_stage 1", 2, zero_stage=1),
    _path("zero_stage 2", 2, zero_stage=2),
    _path("zero_stage 3", 2, zero_stage=3),
    _path("tensor_parallel 2", 2, tensor_parallel=2, cross_entropy_chunks=1),
    _path("bf16 autocast", precision="bf16", mixed_precision="autocast"),
    _bf16("bf16 master weights"),
    _bf16("bf16 cudnn", attention_backend="cudnn"),
    _bf16("bf16 flash", attention_backend="flash"),
    _bf16("bf16 cuda_graphs", cuda_graphs=True),
    _bf16("bf16 compile, tensor_parallel 2", 2, **_GROUP),
    _bf16("bf16 async_tensor_parallel", 2, **_GROUP, async_tensor_parallel=True),
    Path("bf16, all defaults", {"precision": "bf16"}),
    Path("bf16, all defaults, zero_stage 3", {"precision": "bf16", "zero_stage": 3}, 2),
    Path("fp8, all defaults", {"precision": "fp8"}),
)


def _fault(name: str, planted: str | None = None, **options: str | int | float | bool) -> Path:
    return Path(name, {**PLAIN, **options}, fault=planted, wrong=True, environ=EXACT)


# What a wrong path might do (benchmarks/learning_runs.py), to see which of it is caught, and two
# that do nothing wrong.
FAULTS: Sequence[Path] = (
    _path("honest: passes of half the size", micro_batch_size=2),
    _path("honest: bf16 autocast", precision="bf16", mixed_precision="autocast"),
    _fault("learning rate 10 % off", "higher_rate"),
    _fault("gradients not clipped", clip_grad=0),
    _fault("gradients x 0.9", "scaled_gradients"),
    _fault("gradients of all passes but the last lost", "lost_gradients"),
    _fault("gradients of an eighth of the tokens lost", "lost_tokens"),
    _fault("half of each bias' gradient doubled", "doubled_biases"),
    _fault("each rank the same samples", "repeated_samples"),
    _fault("samples of the iteration before", "late_samples"),
    _fault("causal mask lost", "lost_mask"),
    _fault("weights kept in bf16", "no_masters"),
    _fault("AdamW's second beta 0.999", "other_beta"),
    _fault("weight decay of norms and biases", "decay_of_all"),
)


def argv(path: Path, model: str, device: str, data: str, steps: int, seed: int) -> list[str]:
    """Write the trainer's options."""
    values = {
        **{"device": device, "model": model, "data_path": data, "seed": seed},
        **{"train_iters": steps, "log_interval": 1, **COMMON[device], **path.options},
    }
    words = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return words
