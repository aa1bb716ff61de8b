"""The policy and value networks: plain multilayer perceptrons in flax linen."""

from collections.abc import Callable, Sequence

import flax.linen as nn

from rlkjax import formulas
from rlkjax.types import Array

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": formulas.tanh,
    "relu": formulas.relu,
    "swish": formulas.swish,
}


def _dense(features: int, scale: float, name: str) -> nn.Dense:
    init = nn.initializers.variance_scaling(scale, "fan_in", "uniform")
    return nn.Dense(features, kernel_init=init, name=name)


class MLP(nn.Module):
    """Dense layers with an activation after each: [..., I] float32 -> [..., hidden[-1]] float32.

    Attributes:
      hidden: widths of the layers; none gives the identity.
      activation: name in `ACTIVATIONS`.
    """

    hidden: Sequence[int]
    activation: str

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Applies the layers in order. x: [..., I] float32."""
        for i, width in enumerate(self.hidden):
            x = ACTIVATIONS[self.activation](_dense(width, 2.0, f"dense_{i}")(x))
        return x


class ActorCritic(nn.Module):
    """Distribution outputs and value of an observation, from one torso or two.

    Initial weights are uniform with variance 2 / fan_in (1e-4 / fan_in before the distribution, so
    that the first policy hardly prefers anything; 1 / fan_in before the value), biases zero.

    Attributes:
      outputs: P, outputs for the distribution.
      policy_hidden: widths of the policy's torso.
      value_hidden: widths of the value's torso; unused when the torso is shared.
      shared: whether the value head sits on the policy's torso.
      activation: name in `ACTIVATIONS`.
    """

    outputs: int
    policy_hidden: Sequence[int]
    value_hidden: Sequence[int]
    shared: bool
    activation: str

    def setup(self) -> None:
        """Names the parts; flax calls it."""
        self.policy_torso = MLP(self.policy_hidden, self.activation)
        if not self.shared:
            self.value_torso = MLP(self.value_hidden, self.activation)
        self.policy_head = _dense(self.outputs, 1e-4, "policy_head")
        self.value_head = _dense(1, 1.0, "value_head")

    def __call__(self, obs: Array) -> tuple[Array, Array]:
        """obs: [..., O] float32 -> ([..., P] float32, [...] float32)."""
        torso = self.policy_torso(obs)
        value_torso = torso if self.shared else self.value_torso(obs)
        return self.policy_head(torso), self.value_head(value_torso)[..., 0]

    def value(self, obs: Array) -> Array:
        """The value alone. obs: [..., O] float32 -> [...] float32."""
        torso = self.policy_torso(obs) if self.shared else self.value_torso(obs)
        return self.value_head(torso)[..., 0]
