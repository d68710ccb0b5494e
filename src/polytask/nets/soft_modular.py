"""Soft modularization: a routing network computes, per state and task, how the modules of consecutive layers connect.

Yang et al., "Multi-Task Reinforcement Learning with Soft Modularization", NeurIPS 2020 (arXiv 2003.13661).

Differences from the paper: None in the equations. Its released code adds skip connections to the routing and an
activation to f; both are left out here. Default sizes are MTBench's (2 modules, 4 layers, width 256). The modules read
f as in the paper, whereas MTBench's read f * z. The paper's deep network is modules=4, width=128. MTBench's PQN has a
layer normalization after the ELU of every module (`layer_norm`), because nothing else stabilizes its values.

`form="mtrl"` is the network of the library mtrl, which PTSL compares with: f * z goes through a linear layer before the
routing, the outputs of the last modules are averaged, and in a Q-function f encodes the state alone; the action joins
it by another linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.layers import ACTIVATIONS, COUNT, WIDTH
from polytask.nets.task_code import CODES, TaskCode, TaskCodeConfig, rows
from polytask.settings import setting

FORMS = ("paper", "mtrl")


@dataclass
class SoftModularConfig(TaskCodeConfig):
    """Settings of the modules and their router."""

    name: str = "soft_modular"
    modules: int = setting(2, "modules in every layer, E", **COUNT)
    layers: int = setting(
        4, "layers of modules, including the output layer; a routing matrix connects each two", within=(2, 1_000)
    )
    width: int = setting(256, "width of a module's output", **WIDTH)
    state_hidden: list[int] = setting([256, 256], "hidden widths of the state encoder f", **WIDTH)
    task_hidden: list[int] = setting([256], "hidden widths of the task encoder z", **WIDTH)
    feature_dim: int = setting(256, "width of f and z", **WIDTH)
    activation: str = setting("relu", "activation of the modules", choices=ACTIVATIONS)
    layer_norm: bool = setting(
        False, "normalize the activated output of every module; PQN needs it, because it has no target network"
    )
    form: str = setting(
        "paper", "paper, or mtrl: that library's projection before the routing and mean over modules", choices=FORMS
    )
    task_code: str = setting("onehot", "task code that z is computed from: onehot or embedding", choices=CODES)


class SoftModular(nn.Module):
    """Layers of E modules, mixed by routing probabilities that depend on state and task."""

    def __init__(self, cfg: SoftModularConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw Glorot-uniform weights for all parts."""
        super().__init__()
        experts, routes, features = cfg.modules, cfg.modules**2, cfg.feature_dim
        self.is_mtrl = cfg.form == "mtrl"
        self.joined = shape.action_dim if self.is_mtrl else 0  # entries at the end of the input that f does not encode
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        state_widths = [shape.in_dim - self.joined, *cfg.state_hidden, features]
        task_widths = [self.code.width, *cfg.task_hidden, features]
        self.state_encoder = layers.mlp(state_widths, "relu", generator, init=layers.xavier)[:-1]
        self.task_encoder = layers.mlp(task_widths, "relu", generator, init=layers.xavier)[:-1]
        hops = range(cfg.layers - 1)
        routed = cfg.width if self.is_mtrl else features  # width of what the router reads
        self.to_routes = nn.ModuleList([layers.linear(routed, routes, generator, init=layers.xavier) for _ in hops])
        self.from_routes = nn.ModuleList(
            [layers.linear(routes, routed, generator, init=layers.xavier) for _ in hops[1:]]
        )
        widths = [features, *[cfg.width] * len(hops)]
        self.experts = nn.ModuleList([layers.ExpertLinear(experts, widths[hop], cfg.width, generator) for hop in hops])
        self.activation = ACTIVATIONS[cfg.activation]()
        norms = [layers.ExpertNorm(experts, cfg.width, generator) for _ in hops] if cfg.layer_norm else []
        self.norms = nn.ModuleList(norms or [nn.Identity() for _ in hops])
        self.output = layers.ExpertLinear(experts, widths[-1], shape.out_dim, generator)
        self.before_routing: nn.Module = nn.Identity()
        if self.is_mtrl:
            self.before_routing = layers.linear(features, routed, generator, init=layers.xavier)
        if self.joined:
            self.join = layers.linear(features + self.joined, features, generator, init=layers.xavier)
        self.task_axes = self.code.columns("task_encoder.0.weight")

    def routing(self, state: Tensor, task: Tensor) -> list[Tensor]:
        """Compute the routing matrices (B, E, E) between layers from f (B, D); rows are distributions over sources."""
        mixed = self.before_routing(state * rows(self.task_encoder(self.code.table), task))
        logits = self.to_routes[0](torch.relu(mixed))
        matrices = [logits]
        for up, down in zip(self.from_routes, self.to_routes[1:], strict=True):
            logits = down(torch.relu(up(logits) * mixed))
            matrices.append(logits)
        experts = self.output.weight.shape[0]
        return [matrix.unflatten(-1, (experts, experts)).softmax(dim=-1) for matrix in matrices]

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        state: Tensor = self.state_encoder(x[:, : x.shape[1] - self.joined])
        if self.joined:
            state = self.join(torch.cat([state, x[:, -self.joined :]], dim=-1))
        modules = state  # (B, D), read by every module of the first layer
        for expert, norm, route in zip(self.experts, self.norms, self.routing(state, task), strict=True):
            # Contiguous, because torch traces the gradient of an ELU of a transposed tensor with wrong strides.
            active = norm(self.activation(expert(modules).contiguous()))  # (E, B, D)
            # Written out, because thousands of tiny matrix products are slow, and a compiler can fuse this sum.
            modules = (route.permute(1, 2, 0).unsqueeze(-1) * active).sum(dim=1)  # (E, B, D)
        outputs: Tensor = self.output(modules)  # (E, B, out)
        return outputs.mean(dim=0) if self.is_mtrl else outputs.sum(dim=0)
