"""What a reader of a report must know about its numbers: lines below the tables."""

from __future__ import annotations

from collections.abc import Sequence

from polytask.runs.changes import describe
from polytask.runs.report.pool import MEASURE_NAMES, Pool


def remarks(pools: Sequence[Pool]) -> list[str]:
    """Return what a reader of the table must know about each setting."""
    lines = []
    if not all(score.is_over_runs for one in pools for score in one.scores.values()):
        lines.append("one seed, or equal seeds: the interval is over episodes, and says nothing about other seeds")
    for one in pools:
        for measure, logs in one.missing.items():
            for log in logs:
                found = log.rates(measure)
                tasks = [] if found is None else [task for task, rate in found.by_task.items() if rate is None]
                which = "" if len(tasks) == len(log.tasks) else f" of {', '.join(tasks)}"
                why = f"no episode{which} ended" if tasks else "it was not evaluated"
                lines.append(f"{one.name}: '{log.directory}' is missing from the {MEASURE_NAMES[measure]}: {why}")
        lines += _incomplete(one)
        lines += [
            f"{one.name}: '{log.directory}' changed {describe([each])} after {each['frames']:,} frames"
            for log in one.logs
            for each in log.changes
        ]
        fewest, most = one.frames
        if most > 1.01 * fewest:
            lines.append(f"{one.name}: its runs have {fewest:,} to {most:,} frames")
    return [*lines, *_different_frames(pools), *_shared_devices(pools)]


def _incomplete(one: Pool) -> list[str]:
    """Return a line that names the runs of a setting that have not ended, or were stopped."""
    found = [log for log in one.logs if not log.is_complete]
    names = ", ".join(f"'{log.directory}' ({log.frames:,} frames)" for log in found)
    return [f"{one.name}: not complete: {names}"] if found else []


def _different_frames(pools: Sequence[Pool]) -> list[str]:
    """Return a line that lists the frames of settings if these differ by more than 1 %."""
    frames = [one.frames[1] for one in pools]
    if not frames or max(frames) <= 1.01 * min(frames):
        return []
    groups: dict[str, list[str]] = {}
    for one in sorted(pools, key=lambda one: one.frames[1]):
        groups.setdefault(f"{one.frames[1] / 1e6:.3g} M", []).append(one.name)
    listed = "; ".join(f"{number} frames: {', '.join(names)}" for number, names in groups.items())
    return [f"the settings have different numbers of frames: {listed}"]


def _shared_devices(pools: Sequence[Pool]) -> list[str]:
    """Return a line about runs that shared a device, if some did: it makes their minutes more."""
    groups: dict[int | None, list[str]] = {}
    for one in pools:
        known = [log.runs_on_device for log in one.logs if log.runs_on_device is not None]
        groups.setdefault(max(known, default=None), []).append(one.name)
    most = max((count for count in groups if count is not None), default=1)
    if most == 1:
        return []
    if len(groups) == 1:
        return [f"up to {most} runs shared a device, so minutes are more than those of a run alone"]
    listed = "; ".join(
        f"{'not known' if count is None else count}: {', '.join(names)}" for count, names in groups.items()
    )
    return [f"minutes cannot be compared, because runs shared a device; runs on a device, at most: {listed}"]
