"""The settings of the commands that start several runs: `sweep`, a grid of them, `reproduce`, those of a paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polytask.errors import UserError
from polytask.settings import MAX_SEED, CommandConfig, setting


@dataclass
class LaunchConfig(CommandConfig):
    """The settings of the commands that start runs."""

    seeds: int = setting(1, "runs per setting, each with another seed", within=(1, 10**6))
    first_seed: int = setting(
        0, "seed of the first run of each setting; the next runs add 1, 2, ...", within=(0, MAX_SEED)
    )
    jobs: int | None = setting(None, "runs at once (default: one, or one per device)", within=(1, 1_024))
    devices: list[int] | None = setting(
        None, "GPUs of this machine that the runs are spread over, such as [0,1]", min_length=1, within=(0, 255)
    )
    launcher: str = setting(
        "local",
        "local: processes of this machine; ray (extra: ray) or slurm (extra: slurm): a cluster that shares the folder",
        choices=("local", "ray", "slurm"),
    )
    gpus: float = setting(1.0, "on a cluster: GPUs of a run; with ray also a fraction", within=(0.0, 1_024.0))
    cpus: int = setting(4, "on a cluster: cores of a run", within=(1, 1_024))
    ray_address: str = setting("", "with launcher=ray: HOST:PORT of a cluster, or auto (empty: Ray on this machine)")
    slurm: list[str] | None = setting(
        None, "with launcher=slurm: options of submitit, such as [slurm_partition=gpu,timeout_min=600]"
    )
    dry_run: bool = setting(False, "only print the commands of the runs that are not complete")
    train: bool = setting(True, "train what is missing; false: only report the complete runs, on any machine")

    @property
    def all_seeds(self) -> range:
        """The seeds of each setting."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def plugin_words(self) -> list[str]:
        """The word that gives the runs the plug-ins of this command, if there are any."""
        return [f"plugins=[{','.join(self.plugins)}]"] if self.plugins else []

    def check_together(self, prefix: str) -> None:
        """Check that all seeds are valid, and that the keys of a launcher are given only with it."""
        if self.first_seed + self.seeds - 1 > MAX_SEED:
            raise UserError(f"{prefix}first_seed={self.first_seed} is too large for {self.seeds} seeds")
        if self.devices is not None and self.launcher != "local":
            raise UserError(f"{prefix}devices applies only with launcher=local; {self.launcher} chooses the GPUs")
        if self.devices is not None and len(set(self.devices)) < len(self.devices):
            raise UserError(f"{prefix}devices={self.devices} names a GPU twice; use jobs= for several runs on one GPU")
        if self.dry_run and not self.train:
            raise UserError(f"{prefix}dry_run=true prints what {prefix}train=false does not run; give one of them")
        for name, launcher in (("ray_address", "ray"), ("slurm", "slurm")):
            if getattr(self, name) and self.launcher != launcher:
                raise UserError(f"{prefix}{name} applies only with launcher={launcher}")


@dataclass
class SweepConfig(LaunchConfig):
    """`polytask sweep`."""

    renamed: ClassVar[dict[str, str]] = {"experiment": "preset", "experiments": "preset", "out": "output"}

    output: str = setting("runs/sweep", "folder of the runs: <output>/<number>-<values>/seed-<n>", is_path=True)
    grid: list[str] | None = setting(
        None, "keys of `polytask train`, with one or several values (net=mlp,moore); write them without grid="
    )


@dataclass
class ReproduceConfig(LaunchConfig):
    """`polytask reproduce`."""

    table: str | None = setting(None, "a published table or figure; without it, all are listed")
    rows: list[str] | None = setting(
        None, "only these rows, by name or pattern, such as [vanilla,'*_te_4m']", min_length=1
    )
    budget: float = setting(1.0, "share of the published frames of every run, such as 0.05", above=0.0, at_most=100.0)
    output: str | None = setting(
        None, "folder of the runs and of the report (default: runs/reproduce/<table>)", is_path=True
    )
    changes: list[str] | None = setting(None, "keys of `polytask train` for every run; write them without changes=")
