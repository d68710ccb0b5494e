"""The learner: its copies, exact resume, and that it solves small worlds seen through pictures."""

from dataclasses import dataclass, fields, replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.learning import BellmanConfig, CEMConfig, LearnerConfig
from polytask.mtopt.config.network import AugmentConfig, NetworkConfig
from polytask.mtopt.learning.acting import best_action
from polytask.mtopt.learning.cem import draw, first_sampler
from polytask.mtopt.learning.learner import QLearner, TrainBatch
from polytask.mtopt.networks import LAYOUTS
from polytask.mtopt.networks.layout import Conv, Layout
from polytask.mtopt.records import Observation

SIDE = 16
RED, BLUE, GREEN = 0, 1, 2
COLOURS = torch.tensor([[220, 40, 40], [40, 40, 220], [40, 200, 40]], dtype=torch.uint8)
# Small enough to train in a second.
TINY = Layout(
    image_size=SIDE,
    image=(Conv(16, 5, stride=2), Conv(16, 3)),
    joint=(Conv(16, 3, stride=2),),
    vector=32,
    dense=(32, 32),
    image_norm="group",
    joint_norm="none",
    vector_norm="channel",
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(LAYOUTS, "tiny", TINY)


def config(**options):
    cem = CEMConfig(samples=32, elites=4)
    return LearnerConfig(network=NetworkConfig("tiny"), bellman=BellmanConfig(cem=cem), **{"lr": 3e-3, **options})


def batch(count=32, seed=0, size=SIDE):
    generator = torch.Generator().manual_seed(seed)
    return TrainBatch(
        image=torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator),
        closed=torch.randint(0, 2, (count,), generator=generator).float(),
        height=torch.rand(count, generator=generator) * 0.3,
        task=torch.randint(0, 2, (count,), generator=generator),
        action=draw(first_sampler(count, CEMConfig(), torch.device("cpu")), 1, generator).squeeze(1),
        target=torch.rand(count, generator=generator),
    )


def view(image, closed, height):
    return Observation(image, closed, height, torch.zeros(len(image), 3))


def act(learner, seen, task, generator):
    return best_action(learner.q1, seen, task, learner.config.bellman.cem, generator)[0]


def flat(net):
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


# Worlds of one square: where it is decides what is good, its colour what has been done.


def place(count, generator):
    """Put squares in one of the four quarters: centres (B, 2) in [-1, 1]."""
    return (torch.rand(count, 2, generator=generator) > 0.5) * 1.2 - 0.6


def picture(centre, colour):
    """Draw a square of a colour (B,) at each centre (B, 2)."""
    grid = torch.linspace(-1, 1, SIDE)
    across, down = ((grid - centre[:, axis, None]).abs() < 0.35 for axis in (0, 1))
    inside = (down[:, :, None] & across[:, None, :]).unsqueeze(-1)
    return torch.where(inside, COLOURS[colour][:, None, None], torch.tensor(90, dtype=torch.uint8))


def is_near(action, centre):
    return ((action[:, :2] - centre).abs() < 0.5).all(-1)


def random_actions(count, generator):
    return draw(first_sampler(count, CEMConfig(), torch.device("cpu")), 1, generator).squeeze(1)


def test_solves_a_bandit_in_which_picture_and_task_decide():
    """Task 0 wants a move to the square, task 1 to the opposite quarter."""
    generator = torch.Generator().manual_seed(0)
    count = 4000
    centre, task = place(count, generator), torch.randint(0, 2, (count,), generator=generator)
    action = random_actions(count, generator)
    reward = is_near(action, centre * (1 - 2 * task[:, None])).float()
    image, zero = picture(centre, torch.full((count,), RED)), torch.zeros(count)
    learner = QLearner(config(), num_tasks=2)
    for _ in range(200):
        row = torch.randint(count, (64,), generator=generator)
        example = TrainBatch(image[row], zero[row], zero[row], task[row], action[row], reward[row])
        metrics = learner.update(example, generator)
    chosen = act(learner, view(image[:200], zero[:200], zero[:200]), task[:200], generator)
    found = is_near(chosen, centre[:200] * (1 - 2 * task[:200, None])).float().mean()
    assert reward.mean() < 0.3 and found > 0.75
    assert metrics["excess"] < 0.3


@dataclass
class Steps:
    image: Tensor
    closed: Tensor
    height: Tensor
    action: Tensor
    next_image: Tensor
    next_closed: Tensor
    next_height: Tensor
    reward: Tensor
    done: Tensor
    task: Tensor

    next_pose = None  # the tiny network merges by adding

    def rows(self, index):
        return Steps(**{item.name: getattr(self, item.name)[index] for item in fields(self)})


def chain_step(centre, closed, action):
    """Closing near the square grasps it, opening releases it; terminating with it in the hand is success."""
    closes, opens, ends = (action[:, 5:] > 0.5).unbind(-1)
    return (closed | (closes & is_near(action, centre))) & ~opens, (ends & closed).float(), ends


def colour(closed):
    return torch.where(closed, GREEN, RED)


def chain_episodes(count, generator, limit=4):
    """Act at random; return all steps taken."""
    centre, closed = place(count, generator), torch.zeros(count, dtype=torch.bool)
    alive, found = torch.ones(count, dtype=torch.bool), []
    zero = torch.zeros(count)
    for step in range(limit):
        action = random_actions(count, generator)
        after, reward, ends = chain_step(centre, closed, action)
        done = ends | (step == limit - 1)
        before, then = picture(centre, colour(closed)), picture(centre, colour(after))
        steps = Steps(before, closed.float(), zero, action, then, after.float(), zero, reward, done, zero.long())
        found.append(steps.rows(alive))
        alive, closed = alive & ~done, after
    return Steps(**{item.name: torch.cat([getattr(part, item.name) for part in found]) for item in fields(Steps)})


def chain_success(learner, count, generator, limit=4):
    centre, closed = place(count, generator), torch.zeros(count, dtype=torch.bool)
    alive, won = torch.ones(count, dtype=torch.bool), torch.zeros(count)
    zero = torch.zeros(count)
    for _ in range(limit):
        seen = view(picture(centre, colour(closed)), closed.float(), zero)
        action = act(learner, seen, zero.long(), generator)
        closed, reward, ends = chain_step(centre, closed, action)
        won += reward * alive
        alive &= ~ends
    return won.mean()


def test_solves_a_chain_from_random_episodes_by_bootstrapping():
    """Grasp, then terminate: random episodes succeed in 2 %, and only the last step is ever rewarded."""
    generator = torch.Generator().manual_seed(0)
    data = chain_episodes(3000, generator)
    assert data.reward.sum() / 3000 < 0.03
    learner = QLearner(config(), num_tasks=1)
    for _ in range(240):
        row = data.rows(torch.randint(len(data.reward), (64,), generator=generator))
        target = learner.targets(row, generator)
        learner.update(TrainBatch(row.image, row.closed, row.height, row.task, row.action, target), generator)
    assert chain_success(learner, 200, generator) > 0.5


def test_copies_follow_as_asked():
    learner = QLearner(config(polyak=0.75, lag=3, has_warmup=False), num_tasks=2)
    generator = torch.Generator()
    first = average = flat(learner.net)
    for step in range(1, 5):
        learner.update(batch(seed=step), generator)
        average = 0.75 * average + 0.25 * flat(learner.net)
        assert_close(flat(learner.q1), average)
        if step < 3:
            assert torch.equal(flat(learner.q2), first)
        if step == 3:
            third = average
    assert_close(flat(learner.q2), third)


def test_warm_up_shortens_both_lags_and_ends():
    learner = QLearner(config(polyak=0.5, lag=2), num_tasks=2)
    before = flat(learner.net)
    learner.update(batch(), torch.Generator())
    # After one update the average keeps 2 / 11 of itself, and the copy is made at once.
    assert_close(flat(learner.q1), before * 2 / 11 + flat(learner.net) * 9 / 11)
    assert torch.equal(flat(learner.q2), flat(learner.q1))
    learner.step = learner.copied = 100
    before = flat(learner.q1)
    learner.update(batch(), torch.Generator())
    assert_close(flat(learner.q1), before * 0.5 + flat(learner.net) * 0.5)
    assert learner.copied == 100
    learner.update(batch(), torch.Generator())
    assert learner.copied == 102


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_resumes_exactly(optimizer, tmp_path):
    options = config(
        optimizer=optimizer, lag=2, conservatism=0.1, augment=AugmentConfig(enabled=True), polyak=0.9, seed=5
    )

    def train(learner, steps, generator):
        return [learner.update(batch(seed=step), generator)["loss"] for step in steps]

    generator = torch.Generator().manual_seed(1)
    unbroken = QLearner(options, num_tasks=2)
    train(unbroken, range(3), generator)
    torch.save({"learner": unbroken.state_dict(), "generator": generator.get_state()}, tmp_path / "state.pt")
    expected = train(unbroken, range(3, 6), generator)

    state = torch.load(tmp_path / "state.pt", weights_only=True)
    resumed, again = QLearner(replace(options, seed=9), num_tasks=2), torch.Generator()
    resumed.load_state_dict(state["learner"])
    again.set_state(state["generator"])
    assert train(resumed, range(3, 6), again) == expected
    for name in ("net", "q1", "q2"):
        assert torch.equal(flat(getattr(resumed, name)), flat(getattr(unbroken, name)))
    assert (resumed.step, resumed.copied) == (unbroken.step, unbroken.copied)


def test_metrics_by_hand():
    learner = QLearner(config(), num_tasks=2)
    learner.net.head.out.weight.data.zero_()
    learner.net.head.out.bias.data.zero_()
    metrics = learner.update(replace(batch(4), target=torch.tensor([0.0, 1.0, 1.0, 0.0])), torch.Generator())
    assert_close(metrics["loss"], torch.tensor(2.0).log())  # every value is one half
    assert_close(metrics["excess"], metrics["loss"])  # targets of 0 and 1 allow a loss of zero
    assert (metrics["value"], metrics["error"], metrics["target"]) == (0.5, 0.5, 0.5)


def test_conservatism_lowers_actions_that_no_data_covers():
    example = replace(batch(64), target=torch.full((64,), 0.9))
    example.action[:] = torch.tensor([0.5, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0])

    def values(conservatism):
        learner, generator = QLearner(config(conservatism=conservatism), num_tasks=2), torch.Generator().manual_seed(0)
        for _ in range(60):
            learner.update(example, generator)
        other = random_actions(64, generator)
        with torch.no_grad():
            actions = torch.stack((example.action, other), 1)
            logit = learner.net(example.image, example.closed, example.height, example.task, actions)
        return logit.sigmoid().mean(0)

    plain, careful = values(0.0), values(0.5)
    assert plain[1] > 0.5  # nothing says that other actions are worse
    assert careful[1] < 0.3 < 0.6 < careful[0]


def test_larger_pictures_are_cropped_in_training_and_in_acting():
    learner = QLearner(config(augment=AugmentConfig(enabled=True)), num_tasks=2)
    example = batch(8, size=SIDE + 4)
    learner.update(example, torch.Generator())
    seen = view(example.image, example.closed, example.height)
    assert act(learner, seen, example.task, torch.Generator()).shape == (8, 8)


def test_batch_statistics_reach_the_copies_and_do_not_move_with_targets(monkeypatch):
    monkeypatch.setitem(LAYOUTS, "tiny", replace(TINY, image_norm="batch", joint_norm="batch", vector_norm="batch"))
    learner = QLearner(config(), num_tasks=2)
    learner.update(batch(), torch.Generator())
    mean = learner.net.trunk.image[1].running_mean
    assert mean.abs().max() > 0 and torch.equal(learner.q1.trunk.image[1].running_mean, mean)
    example = batch()
    act(learner, view(example.image, example.closed, example.height), example.task, torch.Generator())
    assert torch.equal(learner.q1.trunk.image[1].running_mean, mean)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(UserError, match="unknown optimizer 'lion'; known: adam, momentum"):
        QLearner(config(optimizer="lion"), num_tasks=1)
