"""Environments by name."""

from __future__ import annotations

import sys
import types

import gymnasium
import pytest

from tests.environments.scripted import ScriptedEnvironment
from tfagents_x import environments
from tfagents_x.environments import registry


@pytest.fixture
def schemes(monkeypatch):
    monkeypatch.setattr(registry, "_SCHEMES", dict(registry._SCHEMES))


@pytest.mark.parametrize("name", ["CartPol-v1", "cartpole-v1", "CartPole-v7", "gymnasium:CarPole"])
def test_unknown_id_gets_the_nearest(name):
    with pytest.raises(ValueError, match=r"Nearest registered ids: .*CartPole-v1"):
        environments.make_environment(name)


@pytest.mark.parametrize("name", ["zzzzqqqq", "no/such/name", "Not An Id!"])
def test_unknown_id_without_neighbours(name):
    with pytest.raises(ValueError, match=f"can't make the environment '{name}'"):
        environments.make_environment(name)


@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_no_name(name):
    with pytest.raises(ValueError, match="name is a text like 'CartPole-v1'"):
        environments.make_environment(name)


def test_missing_dependency_is_named():
    def needs_more():
        raise gymnasium.error.DependencyNotInstalled("pip install wonderland")

    gymnasium.register("tfagents_x_test/Needy-v0", needs_more)
    try:
        with pytest.raises(ImportError, match=r"Needy-v0' needs a package .* wonderland"):
            environments.make_environment("tfagents_x_test/Needy-v0")
    finally:
        del gymnasium.registry["tfagents_x_test/Needy-v0"]


def test_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"Unknown scheme 'gymnasum:'.*mean 'gymnasium:'\?"):
        environments.make_environment("gymnasum:CartPole-v1")
    with pytest.raises(ValueError, match=r"Unknown scheme 'mod:'.* 'gymnasium:mod:Id-v0'"):
        environments.make_environment("mod:Id-v0")


def test_gymnasium_id_that_imports_a_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "tfagents_x_test_module", types.ModuleType("m"))
    environment = environments.make_environment("gymnasium:tfagents_x_test_module:CartPole-v1")
    assert environment.environment.spec.id == "CartPole-v1"


def test_new_scheme(schemes):
    def factory(rest, **options):
        assert rest == "a:b"
        return ScriptedEnvironment(**options)

    environments.register_scheme("scripted", factory)
    environment = environments.make_environment("scripted:a:b", seed=4, rewards=(7.0,))
    assert environment.seeds == [4]
    environment.reset()
    assert environment.step(0).reward == 7.0
    environments.register_scheme("scripted", factory)  # The same again is no conflict.
    with pytest.raises(ValueError, match="'scripted' is taken"):
        environments.register_scheme("scripted", lambda rest: None)
    with pytest.raises(ValueError, match="without a colon"):
        environments.register_scheme("a:b", factory)
