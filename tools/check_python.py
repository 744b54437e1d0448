"""Says whether this interpreter can run tfagents_x; used by the Makefile before it makes a venv.

Written for any Python from 2.7 on, so that an old one gets the sentence and not a
syntax error.
"""

import platform
import sys


def complaint(implementation, version, system, machine, has_venv):
    """The reason why an interpreter cannot be used, or None where it can.

    Args:
      implementation: `platform.python_implementation()`.
      version: `(major, minor)`.
      system: `platform.system()`.
      machine: `platform.machine()`.
      has_venv: whether `venv` and `ensurepip` can be imported.
    """
    number = "{}.{}".format(*version)
    name = implementation + " " + number
    choose = "choose another one: make PYTHON=python3.11 ..."
    if implementation != "CPython" or not (3, 9) <= tuple(version) <= (3, 13):
        return "tfagents_x needs CPython 3.9 to 3.13, and this is " + name + "; " + choose
    if tuple(version) == (3, 9) and (system, machine) != ("Linux", "x86_64"):
        reason = "Python 3.9 is supported with Reverb only, which means Linux on x86-64"
        return reason + ", and this is " + system + " on " + machine + "; " + choose
    if not has_venv:
        package = "apt install python" + number + "-venv"
        return name + " has no venv module; on Debian and Ubuntu: " + package
    return None


def _has_venv():
    try:
        import ensurepip
        import venv
    except ImportError:
        return False
    return bool(ensurepip and venv)


def main():
    """Prints the complaint about the running interpreter, and returns the exit status."""
    found = complaint(
        platform.python_implementation(),
        sys.version_info[:2],
        platform.system(),
        platform.machine(),
        _has_venv(),
    )
    if found:
        sys.stderr.write("error: " + found + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
