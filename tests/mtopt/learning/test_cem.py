"""CEM finds known maxima, among actions that a robot can take."""

import math

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.learning.cem import Sampler, draw, draw_mode, first_sampler, maximize, refit, usable_modes

CPU = torch.device("cpu")


def goals(count, generator):
    """Draw one best action for each state: inside the box, on the circle, of one mode."""
    angle = torch.rand(count, generator=generator) * 2 * math.pi
    mode = torch.eye(4)[torch.arange(count) % 4, 1:]
    box = torch.rand(count, 3, generator=generator) * 1.6 - 0.8
    return torch.cat((box, angle.sin()[:, None], angle.cos()[:, None], mode), 1)


def search(iterations, samples=64, elites=6):
    generator = torch.Generator().manual_seed(0)
    goal = goals(64, generator)

    def score(action):
        return -(action - goal[:, None]).square().sum(-1)

    action, value = maximize(score, 64, CEMConfig(samples, elites, iterations), generator)
    assert_close(value, score(action[:, None])[:, 0])
    return (action - goal).abs()


def test_two_rounds_come_near_the_maximum_of_a_quadratic():
    error = search(iterations=2)
    assert error[:, :5].mean() < 0.25
    assert (error[:, 5:].sum(-1) == 0).float().mean() > 0.95  # the mode is right


def test_more_rounds_find_the_maximum():
    error = search(iterations=8, samples=400, elites=12)
    assert error[:, :5].max() < 0.1 and error[:, :5].mean() < 0.02 and error[:, 5:].max() == 0


def test_actions_stay_in_the_box_on_the_circle_and_in_one_mode():
    generator = torch.Generator().manual_seed(1)
    config = CEMConfig()
    first = first_sampler(16, config, CPU)
    action = draw(first, 64, generator)
    later = draw(refit(first, action, torch.randn(16, 64, generator=generator)), 64, generator)
    for drawn in (action, later):
        assert drawn[..., :3].abs().max() <= 1
        assert_close(drawn[..., 3:5].square().sum(-1), torch.ones(16, 64))
        assert set(drawn[..., 5:].flatten().tolist()) == {0.0, 1.0} and drawn[..., 5:].sum(-1).max() == 1


def test_first_round_covers_the_box_and_the_circle():
    action = draw(first_sampler(4, CEMConfig(), CPU), 4096, torch.Generator().manual_seed(0)).flatten(0, 1)
    assert_close(action[:, :5].mean(0), torch.zeros(5), atol=0.03, rtol=0)
    assert_close(action[:, :3].std(0), torch.full((3,), 3**-0.5), atol=0.02, rtol=0)
    assert_close(action[:, 3:5].std(0), torch.full((2,), 0.5**0.5), atol=0.02, rtol=0)


def test_modes_are_drawn_by_share_in_every_state():
    flags = draw_mode(torch.tensor([[0.5, 0.25, 0.125, 0.125]]).expand(100, -1), 64, torch.Generator().manual_seed(0))
    assert flags.sum(1).sub(torch.tensor([16, 8, 8])).abs().max() <= 1
    none = draw_mode(torch.tensor([[0.7, 0.3, 0.0, 0.0]]).expand(2000, -1), 64, torch.Generator().manual_seed(0))
    assert none[..., 1:].sum() == 0


def test_a_mode_that_is_not_offered_is_never_taken():
    config = CEMConfig(modes=[1.0, 0.0, 0.0, 0.0], iterations=3)
    action, _ = maximize(lambda action: action[..., 5:].sum(-1), 8, config, torch.Generator().manual_seed(0))
    assert action[:, 5:].sum() == 0


def test_turns_can_be_limited():
    config = CEMConfig(max_turn=0.5, iterations=3)
    generator = torch.Generator().manual_seed(0)
    assert draw(first_sampler(1, config, CPU), 1000, generator)[..., 4].min() >= math.cos(0.5) - 1e-6
    action, _ = maximize(lambda action: action[..., 3], 8, config, generator)  # the largest sine allowed
    assert_close(action[:, 3:5], torch.tensor([[math.sin(0.5), math.cos(0.5)]]).expand(8, -1), atol=0.02, rtol=0)


def test_elites_of_each_mode_by_hand():
    config = CEMConfig(samples=5, elites=2, spread=0.0, modes=[0.5, 0.25, 0.25, 0.0])
    action = torch.zeros(1, 5, 8)
    action[0, :, 0] = torch.tensor([0.2, 0.6, -1.0, 0.7, 0.9])
    action[0, 3:, 5] = 1  # the last two close; their scores are the lowest, and they are the elites of their mode
    first = first_sampler(1, config, CPU)
    sampler = refit(first, action, torch.tensor([[2.0, 3.0, 1.0, 0.1, 0.2]]))
    assert_close(sampler.mean[0, :2, 0], torch.tensor([0.4, 0.8]))
    assert_close(sampler.std[0, :2, 0], torch.tensor([0.08**0.5, 0.02**0.5]))  # Bessel: (0.2^2 + 0.2^2) / 1
    assert torch.equal(sampler.mode, first.mode), "every mode keeps its share"


def test_a_mode_with_one_sample_is_searched_around_it_and_one_without_from_the_middle():
    config = CEMConfig(samples=2, elites=2)
    action = torch.zeros(1, 2, 8)
    action[0, :, 0] = torch.tensor([0.3, -0.6])
    action[0, 1, 5] = 1
    sampler = refit(first_sampler(1, config, CPU), action, torch.tensor([[1.0, 2.0]]))
    assert_close(sampler.mean[0, :, 0], torch.tensor([0.3, -0.6, 0.0, 0.0]))
    assert_close(sampler.std, torch.full((1, 4, 5), 3**-0.5))


def narrow_peak(goal, width, gamma):
    """Value closing by a narrow peak of 0.9 above the object, moving as 0.9 gamma anywhere, other modes as nothing."""

    def score(action):
        away = (action[..., :2] - goal[:, None]).square().sum(-1)
        closing, moving = 0.9 * (-away / (2 * width**2)).exp(), torch.full_like(away, 0.9 * gamma)
        rest = torch.where(action[..., 6:].sum(-1) > 0.5, 0.0, moving)
        return torch.where(action[..., 5] > 0.5, closing, rest)

    return score


def shared_normal(score, config, states, generator):
    """Search as before: one normal distribution for all modes, and shares that follow the elites."""
    first = first_sampler(states, config, CPU)
    action = draw(first, config.samples, generator)
    elite = action.gather(1, score(action).topk(6).indices[..., None].expand(-1, -1, 8))
    mean, std = (part.unsqueeze(1) for part in (elite[..., :5].mean(1), elite[..., :5].std(1).clamp(min=0.02)))
    shares = elite[..., 5:].mean(1)
    shares = torch.lerp(torch.cat((1 - shares.sum(-1, keepdim=True), shares), -1), first.mode, 0.2)
    again = draw(Sampler(config, shares, mean.expand(-1, 4, -1), std.expand(-1, 4, -1)), config.samples, generator)
    return score(again).amax(-1).mean()


@pytest.mark.parametrize(("width", "gamma"), [(0.2, 0.7), (0.3, 0.7), (0.2, 0.4)])
def test_each_mode_by_itself_finds_a_narrow_peak_that_random_and_shared_searches_miss(width, gamma):
    """The same budget for all three: 64 samples in each of two rounds."""
    generator, states = torch.Generator().manual_seed(0), 1000
    config = CEMConfig(modes=[0.2, 0.35, 0.35, 0.1])
    score = narrow_peak(torch.rand(states, 2, generator=generator) * 1.6 - 0.8, width, gamma)
    action, value = maximize(score, states, config, generator)
    drawn = draw(first_sampler(states, config, CPU), 2 * config.samples, generator)
    random = score(drawn).amax(-1).mean()
    assert value.mean() > random + 0.05
    assert value.mean() > shared_normal(score, config, states, generator) + 0.1
    assert action[:, 5].mean() > 0.85, "it closes"


def test_commands_that_do_nothing_are_not_tried():
    closed = torch.tensor([0.0, 1.0])
    seen = []

    def score(action):
        seen.append(action)
        return action[..., 5:].sum(-1)

    config = CEMConfig(iterations=3)
    maximize(score, 2, config, torch.Generator().manual_seed(0), usable_modes(closed, config))
    tried = torch.cat(seen, 1)[..., 5:].mean(1)  # (2, 3) of close, open, terminate
    assert_close(tried, torch.tensor([[1 / 3, 0.0, 0.4 / 3], [0.0, 1 / 3, 0.4 / 3]]), atol=0.02, rtol=0)
    assert usable_modes(closed, CEMConfig(masked=False)) is None


def test_a_state_whose_modes_are_all_masked_keeps_them():
    config = CEMConfig(modes=[0.0, 0.0, 1.0, 0.0])
    sampler = first_sampler(1, config, CPU, usable_modes(torch.zeros(1), config))
    assert sampler.mode.tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_states_do_not_mix_and_the_generator_decides():
    def run(offset):
        best = torch.tensor([0.5, offset])[:, None, None]
        return maximize(
            lambda a: -(a[..., :3] - best).square().sum(-1), 2, CEMConfig(), torch.Generator().manual_seed(3)
        )

    (first, _), (again, _), (other, _) = run(-0.5), run(-0.5), run(0.9)
    assert torch.equal(first, again) and torch.equal(first[0], other[0]) and not torch.equal(first[1], other[1])


@pytest.mark.parametrize(
    "config", [CEMConfig(modes=[1.0]), CEMConfig(modes=[0.0] * 4), CEMConfig(elites=1), CEMConfig(elites=65)]
)
def test_settings_that_are_not_valid_are_refused(config):
    with pytest.raises(UserError, match="must"):
        maximize(lambda action: action[..., 0], 1, config, torch.Generator())


def test_axes_limit_the_search():
    config = CEMConfig(axes=[1.0, 0.5, 0.0], iterations=3)
    seen = []

    def score(action):
        seen.append(action)
        return action[..., :3].sum(-1)

    action, _ = maximize(score, 4, config, torch.Generator().manual_seed(0))
    tried = torch.cat(seen, 1)[..., :3].abs().amax((0, 1))
    assert 0.9 < tried[0] <= 1 and 0.4 < tried[1] <= 0.5 and tried[2] == 0
    assert (action[:, 1] <= 0.5).all()
    with pytest.raises(UserError, match="axes must be 3"):
        first_sampler(1, CEMConfig(axes=[1.0, 1.0]), torch.device("cpu"))


@pytest.mark.parametrize(
    "layout",
    [
        ActionConfig(["x", "y", "z"], [], ["terminate"], [0.75, 0.25]),
        ActionConfig(["a", "b", "c", "d", "e", "f"], [], [], [1.0]),
        ActionConfig([], ["pan", "tilt"], ["shoot"], [0.5, 0.5]),
    ],
    ids=lambda layout: "-".join(layout.names),
)
def test_any_layout_of_an_action_is_searched(layout):
    """The best value of the first number, or of the first angle's sine, is found; commands keep their shares."""
    config = CEMConfig(samples=64, elites=6, iterations=6)
    drawn = draw(first_sampler(2, config, CPU, layout=layout), 64, torch.Generator().manual_seed(0))
    assert drawn.shape == (2, 64, layout.size)
    for index, share in enumerate(layout.shares[1:]):
        assert drawn[..., layout.motion + index].mean() == pytest.approx(share)
    for name in layout.turns:
        sine = layout.turn(name)
        assert_close(drawn[..., sine].square() + drawn[..., sine + 1].square(), torch.ones(2, 64))
    best, _ = maximize(
        lambda action: -(action[..., 0] - 0.6).abs(), 2, config, torch.Generator().manual_seed(0), layout=layout
    )
    assert best.shape == (2, layout.size)
    assert_close(best[:, 0], torch.full((2,), 0.6), atol=0.05, rtol=0)


def test_the_world_decides_which_modes_there_are():
    layout = ActionConfig(["x"], [], ["terminate"], [0.5, 0.5])
    assert usable_modes(torch.tensor([0.0, 1.0]), CEMConfig(), layout) is None, "it has no gripper"
    with pytest.raises(UserError, match="modes must be 2 shares"):
        first_sampler(1, CEMConfig(modes=[0.4, 0.25, 0.25, 0.1]), CPU, layout=layout)
    with pytest.raises(UserError, match="axes must be 1 parts"):
        first_sampler(1, CEMConfig(axes=[1.0, 1.0, 1.0]), CPU, layout=layout)
