"""What a layout says of an observation is what the worlds show, so that a robot can be told the same numbers."""

from __future__ import annotations

import math

import torch
from helpers.parkour_worlds import conclude_at, make, pose
from torch.testing import assert_close

from polytask.envs.layouts import PARKOUR, parkour_layout
from polytask.envs.options import ScanOptions
from polytask.policies.files import open_info
from polytask.policies.pretrained import find_pretrained
from polytask.robots.go1 import DEFAULT, read_feet, read_motion

PARTS = {part["name"]: part for part in parkour_layout(has_foot_scan=True).observation()}


def shown(obs: torch.Tensor, name: str) -> torch.Tensor:
    return obs[0, PARTS[name]["start"] :][: PARTS[name]["size"]]


def factor(name: str) -> float:
    """Return the factor that the unit of a part names."""
    return float(PARTS[name]["unit"].split("times ")[1].split(",")[0])


def test_a_measured_number_times_the_factor_of_its_unit_is_what_is_shown() -> None:
    env = make("flat", num_envs=1, scan=ScanOptions(feet=True))
    qvel = torch.randn(18, generator=torch.Generator().manual_seed(0))
    group = conclude_at(env, pose(3.0, 0.2, yaw=0.7), qvel)
    motion, obs = read_motion(group.batch), group.buffers.next_obs
    true = {
        "angular velocity": motion.spin_body,
        "joint speeds": motion.speeds,
        "velocity": motion.velocity_body,
    }
    for name, value in true.items():
        assert_close(shown(obs, name), factor(name) * value[0], msg=name)
    assert_close(shown(obs, "joint angles"), (motion.joints - torch.tensor(DEFAULT))[0])


def test_the_points_of_the_scans_are_where_their_units_say() -> None:
    env = make("box-climb", num_envs=1, level=9, scan=ScanOptions(feet=True, spacing=0.1))
    assert "-3 to 8 by -5 to 5 times scan.spacing" in PARTS["height scan"]["unit"]
    assert "-5, 0 and 5 cm" in PARTS["foot scan"]["unit"]
    group = conclude_at(env, pose(1.8, 0.2, yaw=0.3))
    motion, obs = read_motion(group.batch), group.buffers.next_obs
    places = {"height scan": (motion.position, range(-3, 9), range(-5, 6), 0.1)}
    places["foot scan"] = (read_feet(group.batch)[0], range(-1, 2), range(-1, 2), 0.05)
    for name, (centres, rows, columns, spacing) in places.items():
        expected = []
        for centre in centres:
            for row in rows:  # from behind to ahead
                for column in columns:  # from right to left
                    ahead, left = spacing * row, spacing * column
                    x = centre[:1] + math.cos(0.3) * ahead - math.sin(0.3) * left
                    y = centre[1:2] + math.sin(0.3) * ahead + math.cos(0.3) * left
                    ground = float(group.tiles.ground_at(group.tile, x, y))
                    expected.append(float(motion.position[0, 2]) - 0.3 - ground)
        assert_close(shown(obs, name), torch.tensor(expected).clamp(-1.0, 1.0), atol=1e-5, rtol=0, msg=name)
        assert len(set(expected)) > 1


def test_the_policy_that_comes_with_the_package_says_the_same() -> None:
    assert list(open_info(find_pretrained("parkour-hard")).observation) == PARKOUR.observation()
