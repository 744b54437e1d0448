"""What `tfagents_x.utils` offers, and that it costs nothing until it is used."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

from tfagents_x import utils

# Of `acme.tf.utils`, `acme.agents.tf.svg0_prior.utils` and `acme.tf.savers`.
ACME = [
    *("add_batch_dim", "squeeze_batch_dim", "batch_concat", "batch_to_sequence", "tile_tensor"),
    *("tile_nested", "create_variables", "TransformationWrapper", "to_sonnet_module", "to_numpy"),
    *("to_numpy_squeeze", "zeros_like"),
    *("OnlineTargetPiQ", "static_rnn", "mask_out_restarting", "batch_concat_selection"),
    *("Snapshotter", "make_snapshot"),
]


def test_names():
    assert set(ACME) == set(utils.__all__) <= set(dir(utils))


@pytest.mark.parametrize("name", ACME)
def test_every_name_can_be_imported(name):
    value = getattr(utils, name)
    assert value.__name__ == name and getattr(utils, name) is value


def test_type_checkers_see_the_same_names():
    code = ast.parse(pathlib.Path(utils.__file__).read_text())
    (block,) = [node for node in code.body if isinstance(node, ast.If)]
    seen = {a.name: node.module for node in block.body for a in node.names}
    assert seen == {name: getattr(utils, name).__module__ for name in utils.__all__}


def test_unknown_name():
    with pytest.raises(AttributeError, match="'tfagents_x.utils' has no attribute 'nope'"):
        utils.nope  # noqa: B018


def test_tensorflow_is_imported_late():
    code = (
        "import sys\n"
        "import tfagents_x.utils as utils\n"
        "from tfagents_x.utils import counting, loggers\n"
        "dir(utils), hasattr(utils, 'nope')\n"
        "assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
