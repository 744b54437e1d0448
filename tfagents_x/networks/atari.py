"""The networks of DQN, R2D2 and IMPALA on Atari."""

from __future__ import annotations

from typing import Any, Callable, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x import types
from tfagents_x.networks import base, checks, cores, embedding, recurrence, vision
from tfagents_x.networks.duelling import DuellingMLP
from tfagents_x.networks.policy_value import PolicyValueHead

_Unrolled = tuple[types.NestedTensor, types.NestedTensor]


class AtariTorso(base.Module):
    """The three convolutions of DQN, flattened.

    Mnih et al., https://doi.org/10.1038/nature14236, with Sonnet's padding (SAME), as in
    Acme's `AtariTorso`.
    """

    def __init__(self) -> None:
        """Makes the layers; their variables come with the first call."""
        super().__init__(name="atari_torso")
        self._network = snt.Sequential(
            [
                snt.Conv2D(32, [8, 8], [4, 4]),
                tf.nn.relu,
                snt.Conv2D(64, [4, 4], [2, 2]),
                tf.nn.relu,
                snt.Conv2D(64, [3, 3], [1, 1]),
                tf.nn.relu,
                snt.Flatten(),
            ]
        )

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes features.

        Args:
          inputs: images [B, H, W, C]. Integers are cast to float32 and nothing is scaled:
            give floats in [0, 1], or expect pixels of 0 ... 255 to be taken as such.

        Returns:
          Features [B, D]; D is 7744 for 84 x 84 pixels.

        Raises:
          ValueError: `inputs` have another number of axes.
        """
        images = checks.images("AtariTorso", inputs)
        return self._network(images if images.dtype.is_floating else tf.cast(images, tf.float32))


class DQNAtariNetwork(base.Module):
    """Action values of Ape-X DQN: `AtariTorso` and a `DuellingMLP`.

    Horgan et al., https://arxiv.org/abs/1803.00933 (Acme's `DQNAtariNetwork`).
    """

    def __init__(self, num_actions: int):
        """Makes the layers; their variables come with the first call.

        Args:
          num_actions: number A of discrete actions.

        Raises:
          ValueError: it is not positive.
        """
        super().__init__(name="dqn_atari_network")
        self._network = snt.Sequential([AtariTorso(), DuellingMLP(num_actions, hidden_sizes=[512])])

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Images [B, H, W, C], see `AtariTorso` -> action values [B, A]."""
        return self._network(inputs)


class _OARNetwork(base.RNNCore):
    """Embedding, core and head over `types.OAR`: what the recurrent networks share.

    Inputs are `types.OAR` with images [B, H, W, C], actions [B] and rewards [B] or [B, 1];
    the state is that of the core alone, as in Acme.
    """

    def __init__(self, torso: Any, num_actions: int, core: snt.RNNCore, head: Any, name: str):
        super().__init__(name=name)
        # Acme's names, so that `variables` come in Acme's order: core, embedding, head.
        self._embed = embedding.OAREmbedding(torso, num_actions)
        self._core = core
        self._head = head
        self._net = cores.DeepRNN([self._embed, self._core, self._head])

    def __call__(self, inputs: types.OAR, state: types.NestedTensor) -> _Unrolled:
        """One step: inputs [B, ...] and state -> the head's output and the next state."""
        outputs, (next_state,) = self._net(inputs, (state,))
        return outputs, next_state

    def initial_state(self, batch_size: Any, **kwargs: Any) -> types.NestedTensor:
        """State of the core for a batch of `batch_size`; keywords are ignored."""
        return self._core.initial_state(batch_size)

    def unroll(
        self,
        inputs: types.OAR,
        state: types.NestedTensor,
        sequence_length: Optional[int] = None,
    ) -> _Unrolled:
        """Runs over a sequence: embedding and head in one batch, only the core in a loop.

        Args:
          inputs: `types.OAR` with leaves [T, B, ...], T known at trace time.
          state: state of the core before the first step.
          sequence_length: number of steps to run, by default all T.

        Returns:
          The head's outputs [T, B, ...], and the state after the last step.

        Raises:
          ValueError: see `recurrence.unroll`, or `sequence_length` is not in 1 ... T.
        """
        outputs, (last_state,) = self._net.unroll(inputs, (state,), sequence_length)
        return outputs, last_state

    def unroll_all(
        self, inputs: types.OAR, state: types.NestedTensor, resets: Optional[tf.Tensor] = None
    ) -> _Unrolled:
        """What `recurrence.unroll` uses: leaves [T, B, ...] -> outputs and all states."""
        outputs, (states,) = recurrence.unroll_core(self._net, inputs, (state,), resets)
        return outputs, states


class R2D2AtariNetwork(_OARNetwork):
    """Recurrent action values: `AtariTorso`, LSTM of 512, duelling head.

    Kapturowski et al., https://openreview.net/forum?id=r1lyTjAqYX (Acme's
    `R2D2AtariNetwork`). Steps and unrolls as `types.OAR` -> action values [B, A].
    """

    def __init__(self, num_actions: int, core: Optional[snt.RNNCore] = None):
        """Makes the layers; their variables come with the first call.

        Args:
          num_actions: number A of discrete actions.
          core: recurrent core in place of the LSTM, from [B, D] to [B, D'].

        Raises:
          TypeError: `core` is not a `snt.RNNCore`.
          ValueError: `num_actions` is not positive.
        """
        if core is not None and not isinstance(core, snt.RNNCore):
            raise TypeError(f"core must be a snt.RNNCore, got a {type(core).__name__}.")
        super().__init__(
            AtariTorso(),
            num_actions,
            cores.LSTM(512) if core is None else core,
            DuellingMLP(num_actions, hidden_sizes=[512]),
            name="r2d2_atari_network",
        )


class _IMPALANetwork(_OARNetwork):
    """A torso, LSTM of 256, a layer of 256, and a policy-value head."""

    def __init__(self, torso: Callable[[tf.Tensor], tf.Tensor], num_actions: int, name: str):
        head = snt.Sequential([snt.Linear(256), tf.nn.relu, PolicyValueHead(num_actions)])
        super().__init__(torso, num_actions, cores.LSTM(256), head, name)


class IMPALAAtariNetwork(_IMPALANetwork):
    """The shallow network of IMPALA: `AtariTorso`, LSTM of 256, policy and value.

    Espeholt et al., https://arxiv.org/abs/1802.01561 (Acme's `IMPALAAtariNetwork`, which
    could not unroll itself). Steps and unrolls as `types.OAR` -> (logits [B, A], value [B]).
    """

    def __init__(self, num_actions: int):
        """Makes the layers for `num_actions` discrete actions, which must be positive."""
        super().__init__(AtariTorso(), num_actions, "impala_atari_network")


class DeepIMPALAAtariNetwork(_IMPALANetwork):
    """The deep network of IMPALA: `ResNetTorso`, LSTM of 256, policy and value.

    As `IMPALAAtariNetwork`, but for the torso (Acme's `DeepIMPALAAtariNetwork`). It scales
    uint8 images to [0, 1].
    """

    def __init__(self, num_actions: int):
        """Makes the layers for `num_actions` discrete actions, which must be positive."""
        super().__init__(vision.ResNetTorso(), num_actions, "deep_impala_atari_network")
