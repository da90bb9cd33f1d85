"""The container engines: what each is told, a class where they differ and an entry of the table.

Pure. A new engine is one entry of ENGINES: inventories, plans and setup read the table alone.
docs/architecture.md, "Containers", has the design.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

Argv = tuple[str, ...]
BUILDER = "/usr/bin/podman"  # of images for engines that build none


@dataclass(frozen=True)
class Containers:
    """How a cluster runs containers: the engine, the port of their sshd, further options."""

    engine: str = "podman"
    ssh_port: int = 2222
    options: Argv = ()


@dataclass(frozen=True)
class Mount:
    """A folder or file of the node, and where the container has it."""

    source: str
    target: str
    fixed: bool = False  # read-only

    def __str__(self) -> str:
        """Return it as every engine takes it."""
        return f"{self.source}:{self.target}{':ro' if self.fixed else ''}"


@dataclass(frozen=True)
class Container:
    """What is to run in one, whichever engine starts it. `env` are names: no value is in argv.

    `image` is its name in the engine's storage, or its file; an engine that takes files into a
    storage has it at `storage`. `home` is a folder of the run's: nobody's own home is mounted.
    """

    image: str
    name: str = ""
    argv: Argv = ()
    cwd: str = ""
    home: str = ""
    mounts: Sequence[Mount] = ()
    env: Sequence[str] = ()
    memory: Sequence[str] = ()  # folders that are on no disk
    gpus: bool = False
    options: Argv = ()
    storage: str = ""


@dataclass(frozen=True)
class ContainerEngine:
    """One engine: the program, and what it is told."""

    name: str
    program: str
    suffix: str  # of an image that is a file; always one where the nodes share their root
    separators: str  # letters that no path may have that is mounted
    refuses: bytes  # a pattern of the line with which it starts no container
    kept: bool = False  # each node has the image in the engine's own storage
    filed: bool = True  # it takes an image that is a file
    writable: bool = True  # what a run caches goes into the container, and with it
    over_ssh: bool = True  # sshd runs in its containers
    starter: str = ""  # the program that alone starts them, with the node's whole task within
    option: str = ""  # of the starter, for the image
    build: Argv = ()  # what its own `build` is told besides

    @property
    def builder(self) -> str:
        """What builds the images."""
        return self.program if self.kept else BUILDER

    @property
    def building(self) -> Argv:
        """What the builder's `build` is told besides."""
        return (self if self.kept else ENGINES["podman"]).build

    def file(self, home: PurePosixPath | str) -> str:
        """Return the file that holds the image of the pin set at `home`."""
        return f"{home}/image.{self.suffix}"

    def made(self, image: str, archive: str, file: str) -> Sequence[Argv]:
        """Return what makes `file` of an image that the builder has; `archive` is in between."""
        raise NotImplementedError

    def argv(self, container: Container) -> Argv:
        """Return what the node's supervisor starts."""
        raise NotImplementedError

    def within(self, container: Container) -> Argv:
        """Return what setup's questions are asked by, in one that ends with the question."""
        return ENGINES["podman"].within(container)  # which has built it

    def step(self, container: Container) -> Argv:
        """Return options of the starter, where that starts the container."""
        return ()

    def after(self, container: Container) -> tuple[Argv, ...]:
        """Return what ends the container for sure, once its processes have ended."""
        return ()


@dataclass(frozen=True)
class Storing(ContainerEngine):
    """Podman and Docker: they build images, and run them from a storage of their own."""

    gpus: str = ""
    remove: Argv = ()

    def _called(self, container: Container) -> Argv:
        """Return the program, told of a storage that is not its own."""
        if not container.storage:
            return (self.program,)
        # A user of a cluster has one uid: what the image gives to others is theirs.
        options = ("--storage-driver=overlay", "--storage-opt=overlay.ignore_chown_errors=true")
        places = (f"--root={container.storage}/storage", f"--runroot={container.storage}/run")
        # systemd's cgroup would be no part of the job, whose limits and end are the step's; what
        # the engine says of a user without further uids is no error of the trainer's.
        return (self.program, "--log-level=fatal", "--cgroup-manager=cgroupfs", *options, *places)

    def made(self, image: str, archive: str, file: str) -> Sequence[Argv]:
        """Return how it is saved."""
        return ((self.program, "save", "--output", file, image),)

    def argv(self, container: Container) -> Argv:
        """Return `run`; a file is taken into the storage where that has not the image yet."""
        stored = bool(container.storage)
        argv = [*self._called(container), "run", "--rm"]
        argv += ["--quiet" if stored else "--pull=never", "--name", container.name]
        argv += ["--network=host", "--ipc=host", *([self.gpus] if container.gpus else [])]
        argv += container.options
        for mount in container.mounts:
            argv += ["--volume", str(mount)]
        argv += [f"--tmpfs={folder}:mode=700" for folder in container.memory]
        argv += ["--workdir", container.cwd]
        for name in container.env:
            argv += ["--env", name]
        image = f"docker-archive:{container.image}" if stored else container.image
        return (*argv, image, *container.argv)

    def within(self, container: Container) -> Argv:
        """Return `run`, of the image in the engine's own storage."""
        argv = [self.program, "run", "--rm", "--interactive", "--pull=never", "--network=none"]
        argv += [self.gpus] if container.gpus else []
        for mount in container.mounts:
            argv += ["--volume", str(mount)]
        for name in container.env:
            argv += ["--env", name]
        return (*argv, container.image, *container.argv)

    def after(self, container: Container) -> tuple[Argv, ...]:
        """Return how it is removed by its name."""
        return ((*self._called(container), *self.remove, container.name),)


@dataclass(frozen=True)
class Apptainer(ContainerEngine):
    """Apptainer, and Singularity with the same words: a file runs where it lies.

    Its processes are the supervisor's own descendants, and have what variables that gives them;
    network, processes and shared memory are the node's.
    """

    def made(self, image: str, archive: str, file: str) -> Sequence[Argv]:
        """Return how it is converted, by way of an archive."""
        return (
            (BUILDER, "save", "--output", archive, image),
            (self.program, "build", "--force", file, f"docker-archive:{archive}"),
        )

    def argv(self, container: Container) -> Argv:
        """Return `exec`."""
        argv = [self.program, "exec", *(["--nv"] if container.gpus else [])]
        argv += [f"--home={container.home}", f"--pwd={container.cwd}", *container.options]
        argv += [f"--bind={mount}" for mount in container.mounts]
        return (*argv, container.image, *container.argv)


@dataclass(frozen=True)
class Pyxis(ContainerEngine):
    """Pyxis: srun has the node's task, the supervisor too, in a container of enroot's.

    Enroot shares the node's processes, network and shared memory with it, and gives it the GPUs.
    Without a name the container is removed with the step; with one the next step finds it.
    """

    def made(self, image: str, archive: str, file: str) -> Sequence[Argv]:
        """Return how enroot takes it over."""
        return ((self.program, "import", "--output", file, f"podman://{image}"),)

    def argv(self, container: Container) -> Argv:
        """Return the command itself."""
        return container.argv

    def step(self, container: Container) -> Argv:
        """Return what srun is told."""
        return (
            f"{self.option}={container.image}",
            *((f"--container-name={container.name}",) if container.name else ()),
            f"--container-mounts={','.join(map(str, container.mounts))}",
            *("--no-container-mount-home", "--no-container-remap-root"),
            *("--no-container-entrypoint", "--container-writable"),
            *container.options,
        )


_ENGINES = (
    Storing(
        *("podman", "/usr/bin/podman", "tar", ":", b""),
        kept=True,
        build=("--format=docker",),  # its own form is renamed when it is saved: two ids
        gpus="--device=nvidia.com/gpu=all",
        remove=("rm", "--force", "--ignore", "--time=0"),
    ),
    Storing(
        *("docker", "/usr/bin/docker", "tar", ":"),
        rb"^docker: (?:Error response from daemon|Cannot connect to the Docker daemon)",
        kept=True,
        filed=False,
        build=("--build-arg=http_proxy", "--build-arg=https_proxy"),  # of the environment, if there
        gpus="--gpus=all",
        remove=("rm", "--force"),
    ),
    *(
        Apptainer(name, name, "sif", ":,", rb"^FATAL: {3}\S", writable=False, over_ssh=False)
        for name in ("apptainer", "singularity")
    ),
    Pyxis(
        *("pyxis", "enroot", "sqsh", ":,", rb"error: pyxis: "),
        over_ssh=False,
        starter="srun",
        option="--container-image",
    ),
)
ENGINES: Mapping[str, ContainerEngine] = {engine.name: engine for engine in _ENGINES}
REFUSALS = tuple(dict.fromkeys(engine.refuses for engine in _ENGINES if engine.refuses))


def image_name(system: str, pin: str) -> str:
    """Return the local name of the image that a pin set becomes."""
    return f"localhost/trainbench/{system}:{pin}"
