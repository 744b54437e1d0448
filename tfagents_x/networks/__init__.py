"""Sonnet modules under the names of `acme.tf.networks`; recurrent ones over whole sequences."""

from tfagents_x.networks.atari import (
    AtariTorso,
    DeepIMPALAAtariNetwork,
    DQNAtariNetwork,
    IMPALAAtariNetwork,
    R2D2AtariNetwork,
)
from tfagents_x.networks.base import DistributionalModule, Module, RNNCore
from tfagents_x.networks.continuous import (
    LayerNormAndResidualMLP,
    LayerNormMLP,
    NearZeroInitializedLinear,
    ResidualLayernormWrapper,
)
from tfagents_x.networks.cores import LSTM, CriticDeepRNN, DeepRNN, RNNUnpackWrapper, UnpackWrapper
from tfagents_x.networks.discrete import DiscreteFilteredQNetwork
from tfagents_x.networks.distributional import (
    ApproximateMode,
    DiscreteValuedHead,
    MultivariateGaussianMixture,
    MultivariateNormalDiagHead,
    UnivariateGaussianMixture,
)
from tfagents_x.networks.distributions import DiscreteValuedDistribution
from tfagents_x.networks.duelling import DuellingMLP
from tfagents_x.networks.embedding import OAREmbedding
from tfagents_x.networks.legal_actions import EpsilonGreedy, MaskedSequential
from tfagents_x.networks.masked_epsilon_greedy import NetworkWithMaskedEpsilonGreedy
from tfagents_x.networks.multihead import Multihead
from tfagents_x.networks.multiplexers import CriticMultiplexer
from tfagents_x.networks.noise import ClippedGaussian
from tfagents_x.networks.observations import ConcatObservation
from tfagents_x.networks.policy_value import PolicyValueHead
from tfagents_x.networks.recurrence import unroll
from tfagents_x.networks.rescaling import ClipToSpec, RescaleToSpec, TanhToSpec
from tfagents_x.networks.samplers import (
    ExpQWeightedPolicy,
    PolicyCriticRNNState,
    RecurrentExpQWeightedPolicy,
)
from tfagents_x.networks.stochastic import (
    StochasticMeanHead,
    StochasticModeHead,
    StochasticSamplingHead,
)
from tfagents_x.networks.vision import DrQTorso, ResNetTorso

# As in Acme, an older name.
GaussianMixtureHead = UnivariateGaussianMixture

__all__ = [
    "LSTM",
    "ApproximateMode",
    "AtariTorso",
    "ClipToSpec",
    "ClippedGaussian",
    "ConcatObservation",
    "CriticDeepRNN",
    "CriticMultiplexer",
    "DQNAtariNetwork",
    "DeepIMPALAAtariNetwork",
    "DeepRNN",
    "DiscreteFilteredQNetwork",
    "DiscreteValuedDistribution",
    "DiscreteValuedHead",
    "DistributionalModule",
    "DrQTorso",
    "DuellingMLP",
    "EpsilonGreedy",
    "ExpQWeightedPolicy",
    "GaussianMixtureHead",
    "IMPALAAtariNetwork",
    "LayerNormAndResidualMLP",
    "LayerNormMLP",
    "MaskedSequential",
    "Module",
    "Multihead",
    "MultivariateGaussianMixture",
    "MultivariateNormalDiagHead",
    "NearZeroInitializedLinear",
    "NetworkWithMaskedEpsilonGreedy",
    "OAREmbedding",
    "PolicyCriticRNNState",
    "PolicyValueHead",
    "R2D2AtariNetwork",
    "RNNCore",
    "RNNUnpackWrapper",
    "RecurrentExpQWeightedPolicy",
    "ResNetTorso",
    "RescaleToSpec",
    "ResidualLayernormWrapper",
    "StochasticMeanHead",
    "StochasticModeHead",
    "StochasticSamplingHead",
    "TanhToSpec",
    "UnivariateGaussianMixture",
    "UnpackWrapper",
    "unroll",
]
