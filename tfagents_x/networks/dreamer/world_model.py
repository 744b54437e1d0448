"""DreamerV3's world model: encoder, recurrent model, decoder, reward and continue predictors.

Hafner et al., 2023, arXiv:2301.04104, equation 3; RLlib's `WorldModel`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import sonnet as snt
import tensorflow as tf

from tfagents_x.networks.dreamer import images, latents, layers, rssm
from tfagents_x.networks.dreamer.sizes import ModelSize
from tfagents_x.ops import symlog

NUM_BUCKETS = 255


class Forward(NamedTuple):
    """What a world model makes of a batch [B, T], folded into N = B T rows.

    Attributes:
      obs: what the decoder should say, [N, ...]: symlog'd vectors, scaled images.
      obs_means: what it says, [N, D].
      reward_logits: [N, 255].
      continue_logits: [N].
      states: h and z side by side, [N, G + K C].
      posterior_probs: [N, K, C].
      prior_probs: [N, K, C].
    """

    obs: tf.Tensor
    obs_means: tf.Tensor
    reward_logits: tf.Tensor
    continue_logits: tf.Tensor
    states: tf.Tensor
    posterior_probs: tf.Tensor
    prior_probs: tf.Tensor


class WorldModel(snt.Module):
    """Learns to predict what it will observe, and what that is worth."""

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        actions: int,
        size: ModelSize,
        dtype: tf.DType = tf.float32,
        name: str = "world_model",
    ):
        """Makes the variables.

        Args:
          observation_shape: [D], or [H, W, C] with H and W multiples of 16.
          actions: A, width of actions.
          size: of the networks.
          dtype: in which products are formed.
          name: of the module.

        Raises:
          ValueError: observations of another shape.
        """
        super().__init__(name=name)
        self._shape = shape = _check_shape(observation_shape)
        self._dtype = dtype
        state = size.gru_units + size.categoricals * size.classes
        self.is_image = len(shape) == 3
        mlp = lambda outputs, zeros, name: layers.MLP(
            state, size.units, size.layers, outputs, dtype, zeros, name
        )
        if self.is_image:
            self.encoder = images.ImageEncoder(shape, size.cnn_multiplier, dtype)
            self.decoder = images.ImageDecoder(state, shape, size.cnn_multiplier, dtype)
            encoded = self.encoder.output_size
        else:
            widths = [shape[0], *[size.units] * size.layers]
            pairs = zip(widths, widths[1:])
            self.encoder = snt.Sequential([layers.Hidden(*pair, dtype=dtype) for pair in pairs])
            self.decoder = mlp(shape[0], False, "decoder")
            encoded = size.units
        self.rssm = rssm.RSSM(encoded, actions, size, dtype)
        self.reward = mlp(NUM_BUCKETS, True, "reward")
        self.continues = mlp(1, False, "continue")

    def preprocess(self, obs: tf.Tensor) -> tf.Tensor:
        """What is encoded: symlog of vectors; bytes of images / 128 - 1, other images as are."""
        if self.is_image:
            floats = tf.cast(obs, tf.float32)
            return floats / 128.0 - 1.0 if obs.dtype == tf.uint8 else floats
        return symlog.symlog(tf.cast(obs, tf.float32))

    def forward(
        self,
        obs: tf.Tensor,
        actions: tf.Tensor,
        is_first: tf.Tensor,
        sampler: latents.Sampler,
        seed: tf.Tensor,
    ) -> Forward:
        """Goes through sequences; differentiable.

        Args:
          obs: [B, T, ...].
          actions: floats [B, T, A].
          is_first: bool [B, T].
          sampler: of latent states.
          seed: int32 [2].
        """
        length = actions.shape[1]
        if length is None:
            raise ValueError("The batch's length T must be known when the update is traced.")
        batch = actions.shape[0] or tf.shape(actions)[0]
        obs = self.preprocess(tf.reshape(obs, [-1, *self._shape]))
        swap = lambda x: tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
        encoded = self.encoder(obs)
        encoded = swap(tf.reshape(encoded, [batch, length, encoded.shape[-1]]))
        observed = self.rssm.observe(encoded, swap(actions), swap(is_first), sampler, seed)
        fold = lambda x: tf.reshape(swap(x), [batch * length, x.shape[-1]])
        h, z, logits = map(fold, observed)
        states = tf.concat([h, z], -1)
        return Forward(
            obs=obs,
            obs_means=self.decoder(states),
            reward_logits=self.reward(states),
            continue_logits=self.continues(states)[:, 0],
            states=states,
            posterior_probs=self.rssm.probs(logits),
            prior_probs=self.rssm.probs(self.rssm.prior(h)),
        )

    def act_step(
        self,
        obs: tf.Tensor,
        h: tf.Tensor,
        z: tf.Tensor,
        actions: tf.Tensor,
        is_first: tf.Tensor,
        sampler: latents.Sampler,
        seed: Optional[tf.Tensor],
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The state after an observation, for acting.

        Args:
          obs: [M, ...].
          h: floats [M, G], before.
          z: floats [M, K C], before.
          actions: floats [M, A], the last ones.
          is_first: bool [M], where the state begins anew.
          sampler: of latent states.
          seed: int32 [2].

        Returns:
          h [M, G] and z [M, K C].
        """
        first = is_first[:, tf.newaxis]
        h_0, z_0 = self.rssm.initial_state()
        h, z = tf.where(first, h_0, h), tf.where(first, z_0, z)
        actions = tf.where(first, tf.zeros_like(actions), actions)
        encoded = self.encoder(self.preprocess(obs))
        return self.rssm.advance(encoded, h, z, actions, sampler, seed)


def _check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = list(shape)
    image = len(sizes) == 3 and not (sizes[0] % images.STRIDE or sizes[1] % images.STRIDE)
    if (image or len(sizes) == 1) and all(sizes):
        return tuple(sizes)
    raise ValueError(
        "DreamerV3 needs observations that are vectors [D], or images [H, W, C] with H and W "
        f"multiples of 16, got shape {sizes}. Flatten or concatenate other ones, and scale "
        "or pad images, in the environment."
    )
