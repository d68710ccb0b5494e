"""Turn the logs of runs into tables and figures, with bootstrap intervals over seeds. All plotting is here."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import yaml

from polytask.config.compose import upgrade
from polytask.config.schema import ReportConfig
from polytask.envs.options import WorldOptions
from polytask.errors import UserError
from polytask.files import (
    LogRow,
    can_read,
    check_fields,
    exists,
    make_folder,
    read_json,
    read_json_lines,
    write_atomically,
    write_text,
)
from polytask.result import Result, Table
from polytask.runs.checkpoint import check_settings
from polytask.runs.file_names import CONFIG_FILE, METRICS_FILE, SUMMARY_FILE
from polytask.statistics import Array, bootstrap, iqm, mean

COSINES = ("min", "mean", "max")  # logged statistics of the cosines between the gradients of two tasks
NO_MATPLOTLIB = "no figure: it needs an extra, pip install 'polytask[report]'"


@dataclass(frozen=True)
class RunLog:
    """The logged metrics of a run."""

    directory: Path
    setting: str  # tasks, algorithm, network and gradient method, without the seed
    rows: list[LogRow]
    reward: str = "dense"  # which reward the policy learned from

    @property
    def tasks(self) -> list[str]:
        """The tasks of the run."""
        return [name.removeprefix("success/") for name in self.rows[-1] if name.startswith("success/")]

    def final(self) -> list[float]:
        """Return the success per task, from the final evaluation if there is one, else from training."""
        path = self.directory / SUMMARY_FILE
        summary = read_json(path, "summary of a run", {"evaluation": dict | None}) if exists(path) else {}
        if summary.get("evaluation"):
            tasks = {task: {"success": float} for task in self.tasks}
            check_fields(summary, {"evaluation": {"tasks": tasks}}, path)
            return [float(summary["evaluation"]["tasks"][task]["success"]) for task in self.tasks]
        return [float(self.rows[-1][f"success/{task}"] or 0.0) for task in self.tasks]


def read_run(directory: Path) -> RunLog:
    """Read a run directory.

    Raises:
        UserError: If it is not a run directory, or one of its files is damaged.
    """
    path = directory / METRICS_FILE
    rows = read_json_lines(path, is_numeric=True)
    if not rows or not exists(directory / CONFIG_FILE):
        raise UserError(
            f"'{directory}' is not a run directory: it has no {METRICS_FILE} with a row, or no {CONFIG_FILE}"
        )
    for row in rows:
        check_fields(row, {"frames": int}, path)
    setting, reward = _setting(directory / CONFIG_FILE)
    log = RunLog(directory, setting, rows, reward)
    if not log.tasks:
        raise UserError(f"'{path}' is damaged: its last row has no field 'success/TASK'")
    return log


def _setting(path: Path) -> tuple[str, str]:
    """Return the tasks, algorithm, network and gradient method in the config file of a run, and the reward."""
    with can_read(path):
        text = path.read_bytes()
    try:
        saved: Any = yaml.safe_load(text.decode())
    # A file of another kind can raise anything: YAMLError, UnicodeDecodeError, AttributeError, RecursionError, ...
    except Exception as error:
        raise UserError(f"'{path}' cannot be read: it is not the config of a run") from error
    if not isinstance(saved, dict):
        raise UserError(f"'{path}' cannot be read: it is not the config of a run")
    check_settings(saved, path)
    config = upgrade(saved)
    check_fields(config, {"suite": str, "tasks": list | None}, path)
    tasks = config.get("tasks")
    setting = " ".join(
        (
            config["suite"] if tasks is None else "+".join(map(str, tasks)),
            *(config[group]["name"] for group in ("algo", "net", "grads")),
        )
    )
    return setting, str(config.get("reward", WorldOptions.reward))


def report(config: ReportConfig) -> Result:
    """Run `polytask report`: pool the seeds of each setting and compare settings."""
    if not config.runs:
        raise UserError("name the runs to report on: runs=[runs/a,runs/b]")
    settings: dict[str, list[RunLog]] = {}
    logs = [read_run(directory) for directory in _different(config.runs)]
    reward = _one_reward(logs)
    for log in logs:
        settings.setdefault(log.setting, []).append(log)
    payload = {name: pool(logs) for name, logs in settings.items()}
    columns = ("setting", "seeds", "mean", "95 % interval", "IQM", "frames")
    rows = [
        (name, one["seeds"], one["mean"], "{:.2f} to {:.2f}".format(*one["interval"]), one["iqm"], one["frames"])
        for name, one in payload.items()
    ]
    result = Result({"reward": reward, "settings": payload}, [Table(f"success, {reward} reward", columns, rows)])
    if config.output is not None:
        result.lines = write_report(Path(config.output).expanduser(), columns, rows, settings)
    return result


def _one_reward(logs: Sequence[RunLog]) -> str:
    """Return the reward of all runs.

    Raises:
        UserError: If there are several: what differs could then be the reward and not the method.
    """
    first = logs[0]
    for log in logs:
        if log.reward != first.reward:
            raise UserError(
                f"'{first.directory}' learned from the {first.reward} reward, but '{log.directory}' from the "
                f"{log.reward} reward; report one reward at a time"
            )
    return first.reward


def _different(names: Sequence[str]) -> list[Path]:
    """Return the folders of the runs.

    Raises:
        UserError: If two names mean the same folder, since a run would count twice.
    """
    folders: dict[Path, Path] = {}
    for name in names:
        try:
            folder = Path(name).expanduser()
        except RuntimeError as error:
            raise UserError(f"runs: there is no home folder for '{name}'") from error
        with can_read(folder):
            same = folders.setdefault(folder.resolve(), folder)
        if same is not folder:
            raise UserError(f"runs names one run twice: '{same}' and '{folder}'")
    return list(folders.values())


def pool(logs: Sequence[RunLog]) -> dict[str, Any]:
    """Summarize the runs of one setting."""
    for log in logs:
        if log.tasks != logs[0].tasks:
            raise UserError(
                f"'{log.directory}' and '{logs[0].directory}' have the same setting, but logged different tasks"
            )
    scores = np.array([log.final() for log in logs], dtype=np.float64)  # (R, K)
    return {
        "seeds": len(logs),
        "mean": float(mean(scores)),
        "interval": list(bootstrap(scores)),
        "iqm": float(iqm(scores)),
        "frames": max(int(log.rows[-1]["frames"] or 0) for log in logs),
        "tasks": dict(zip(logs[0].tasks, scores.mean(axis=0).tolist(), strict=True)),
    }


def write_report(
    folder: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]], settings: dict[str, list[RunLog]]
) -> list[str]:
    """Write the table as Markdown, LaTeX and CSV, and the figures. Return one line to print per file."""
    make_folder(folder)
    cells = [[f"{value:.2f}" if isinstance(value, float) else str(value) for value in row] for row in rows]
    texts = {
        "report.md": markdown(columns, cells),
        "report.tex": latex(columns, cells),
        "report.csv": comma_separated(columns, cells),
    }
    lines = []
    for name, text in texts.items():
        write_text(folder / name, text)
        lines.append(f"table: {folder / name}")
    curves = {name: [log.rows for log in logs] for name, logs in settings.items()}
    lines.append(draw_curves(curves, folder / "curves.png"))
    panels = conflict_panels(curves)
    return [*lines, draw_conflicts(panels, folder / "conflicts.png")] if panels else lines


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a LaTeX tabular with booktabs rules."""
    body = [" & ".join(line).replace("%", r"\%").replace("_", r"\_") + r" \\" for line in [columns, *rows]]
    head, *rest = body
    inner = "\n".join([r"\toprule", head, r"\midrule", *rest, r"\bottomrule"])
    return f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}\n{inner}\n\\end{{tabular}}\n"


def comma_separated(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def draw_curves(curves: dict[str, list[list[LogRow]]], path: Path) -> str:
    """Draw success over frames, as mean and range over seeds, and return the line to print."""
    if find_spec("matplotlib") is None:
        return NO_MATPLOTLIB
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, seeds in curves.items():
        frames, values = _common_axis(seeds, "success")
        (line,) = axes.plot(frames, values.mean(axis=0), label=name)
        if len(seeds) > 1:
            axes.fill_between(frames, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.2, lw=0)
    _finish_axes(axes)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=150))
    return f"curves: {path}"


def draw_run(rows: list[LogRow], tasks: Sequence[str], path: Path) -> str:
    """Draw the success of one run, per task and on average, and return the line to print."""
    if find_spec("matplotlib") is None:
        return NO_MATPLOTLIB
    if not rows:
        return "no figure: the run has no rows of metrics"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.add_subplot()
    frames = [_number(row.get("frames")) for row in rows]
    for index, task in enumerate(tasks):
        values = [_number(row.get(f"success/{task}")) for row in rows]
        axes.plot(frames, values, label=task, lw=1.2, **_style(index))
    axes.plot(frames, [_number(row.get("success")) for row in rows], label="mean", lw=2.5, color="black")
    _finish_axes(axes)
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=150))
    return f"curves: {path}"


@dataclass(frozen=True)
class ConflictPanel:
    """Conflicts between the task gradients of one network, averaged over the seeds of one setting at the same frames.

    Attributes:
        title: The setting and the network.
        frames: (F,)
        cosine: Smallest, mean and largest cosine between the gradients of two tasks. (3, F)
        norms: Norm of each task's gradient, by task. (F,) each
    """

    title: str
    frames: Array
    cosine: Array
    norms: dict[str, Array]


def conflict_panels(curves: dict[str, list[list[LogRow]]]) -> list[ConflictPanel]:
    """Return a panel per setting and network (actor, then critic), except where a seed logged no conflicts."""
    panels = []
    for (setting, seeds), group in product(curves.items(), ("actor", "critic")):
        prefix = f"conflict/{group}"
        logged = [next((each for each in rows if f"{prefix}/cosine_mean" in each), None) for rows in seeds]
        if None in logged:
            continue
        names = [name for name in logged[0] or () if name.startswith(f"{prefix}/norms/")]
        # Use the frames of the first seed's measurements, so that a single seed is drawn without interpolation.
        frames = [_number(each["frames"]) for each in seeds[0] if f"{prefix}/cosine_mean" in each]
        axis = np.array([each for each in frames if each <= min(_number(rows[-1]["frames"]) for rows in seeds)])
        cosine = np.stack([_common_axis(seeds, f"{prefix}/cosine_{each}", axis)[1].mean(0) for each in COSINES])
        norms = {name.removeprefix(f"{prefix}/norms/"): _common_axis(seeds, name, axis)[1].mean(0) for name in names}
        panels.append(ConflictPanel(f"{setting}: {group}", axis, cosine, norms))
    return panels


def draw_conflicts(panels: Sequence[ConflictPanel], path: Path) -> str:
    """Draw the cosines between task gradients (mean and range over pairs) above their norms, one column per panel."""
    if find_spec("matplotlib") is None:
        return NO_MATPLOTLIB
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(1 + 4 * len(panels), 6), layout="constrained")
    axes = figure.subplots(2, len(panels), squeeze=False, sharex="col", sharey="row")
    for panel, (upper, lower) in zip(panels, axes.T, strict=True):
        lowest, mean_cosine, highest = panel.cosine
        upper.axhline(0.0, color="black", lw=0.8)
        upper.plot(panel.frames, mean_cosine, lw=2, color="C0")
        upper.fill_between(panel.frames, lowest, highest, color="C0", alpha=0.2, lw=0)
        for index, (task, norm) in enumerate(panel.norms.items()):
            lower.plot(panel.frames, norm, label=task, lw=1.2, **_style(index))
        upper.set(ylim=(-1.02, 1.02))
        upper.set_title(fill(panel.title, 44), fontsize="small")
        lower.set(xlabel="frames", yscale="log")
        lower.xaxis.set_major_formatter(EngFormatter())
        for each in (upper, lower):
            each.grid(alpha=0.3)
    axes[0, 0].set_ylabel("cosine between two tasks\nmean and range")
    axes[1, 0].set_ylabel("norm of a task's gradient")
    axes[1, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=150))
    return f"conflicts: {path}"


def _style(index: int) -> dict[str, Any]:
    """Return the style of a line: ten colours, repeated with other dashes, which distinguishes 40 lines."""
    return {"color": f"C{index % 10}", "ls": ("-", "--", ":", "-.")[index // 10 % 4]}


def _finish_axes(axes: Any) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set(xlabel="frames", ylabel="success rate", ylim=(-0.02, 1.02))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")


def _common_axis(seeds: list[list[LogRow]], name: str, frames: Array | None = None) -> tuple[Array, Array]:
    """Interpolate the runs of several seeds at the same frames (default: 200 points up to the end of the shortest)."""
    if frames is None:
        frames = np.linspace(0.0, min(_number(rows[-1]["frames"]) for rows in seeds), 200)
    curves = []
    for rows in seeds:
        known = [row for row in rows if row.get(name) is not None] or [{"frames": 0, name: float("nan")}]
        at, value = ([_number(row[key]) for row in known] for key in ("frames", name))
        curves.append(np.interp(frames, at, value))
    return frames, np.array(curves)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
