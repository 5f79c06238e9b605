"""What a service of ours keeps of root's privileges: some capabilities, and no way to gain more. Cold.

Without SECBIT_NOROOT an execve would give root's capabilities back.

Source: capabilities(7); Documentation/userspace-api/no_new_privs.rst.
"""

from __future__ import annotations

import sys


def drop(name: str, keep: tuple[str, ...] = ()) -> None:
    """Give up privileges for good. A process without CAP_SETPCAP has none that could be given up.

    Arguments:
        name: of the process, cut to 15 letters by the kernel.
        keep: capabilities that remain, for example "SYS_PTRACE".

    Raises OSError: the kernel refuses it; the process may have lost some privileges by then, and must not serve.
    Raises ImportError: python-prctl is missing; `install` has the command.
    """
    import prctl  # late: not every installation has the library, and only this function needs it

    kept = [getattr(prctl, f"CAP_{capability}") for capability in keep]
    prctl.set_name(name)
    prctl.set_no_new_privs(1)
    if prctl.cap_effective.setpcap:
        prctl.securebits.noroot = True
        prctl.securebits.noroot_locked = True
        prctl.securebits.keep_caps_locked = True
        prctl.capbset.limit(*kept)
    prctl.cap_inheritable.limit()
    prctl.cap_effective.limit(*kept)
    prctl.cap_permitted.limit(*kept)


def install() -> str:
    """The command that installs what `drop` needs for this Python: pip leaves out what it would have to compile."""
    return f"{sys.executable} -m pip install python-prctl (it needs a compiler and the headers of libcap)"
