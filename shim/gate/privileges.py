"""What the serving process keeps of root's privileges: two capabilities, and no way to gain more.

CAP_SYS_PTRACE opens /proc/PID/root of the daemon, CAP_DAC_READ_SEARCH follows links in directories of users. Without
SECBIT_NOROOT an execve would give root's capabilities back.

Source: capabilities(7); Documentation/userspace-api/no_new_privs.rst.
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason


def drop(name: str) -> None:
    """Give up privileges for good. A process without CAP_SETPCAP has none that could be given up.

    Arguments:
        name: of the process, cut to 15 letters by the kernel.

    Raises CdiError: GATE_PRIVILEGE.
    """
    import prctl  # late: not every installation has the library, and only this function needs it

    kept = (prctl.CAP_SYS_PTRACE, prctl.CAP_DAC_READ_SEARCH)
    try:
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
    except OSError as error:
        raise CdiError([Finding("GATE_PRIVILEGE", f"privileges cannot be dropped: {reason(error)}")]) from None
