/*
 * Gives up privileges of a hook before it reads a file of an image.
 *
 * A hook starts with all privileges of the runtime and in a working directory of the image. It runs no program and
 * needs to write as the container's root, so only the capabilities for that are kept: an exploited parser could do
 * little.
 *
 * The bounding set stays as it is: it limits only what execve and a changed inheritable set can add. After no_new_privs
 * execve adds nothing (security/commoncap.c, cap_bprm_creds_from_file: what the new program would gain is intersected
 * with what the process had), and without CAP_SETPCAP nothing is added to the inheritable set beyond the permitted one
 * (capabilities(7)). Dropping its capabilities one by one took eighty system calls.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * With fewer capabilities than its neighbours in a shared pid namespace a process may be traced by them, and a hook can
 * reach the host's files. Only a process with CAP_SYS_PTRACE of the host may trace one that cannot be dumped.
 */
void hide_process(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/*
 * Keeps these capabilities (a bit for each) as far as the caller has them: a rootless user works on its own files.
 * capset also empties the inheritable set, and the kernel removes from the ambient set what is in neither.
 */
int drop_privileges(uint64_t capabilities)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || chdir("/"))
        return -errno;
    umask(022);
    if (syscall(SYS_capget, &header, data))
        return -errno;
    for (int i = 0; i < 2; i++) {
        uint32_t kept = data[i].permitted & (uint32_t)(capabilities >> 32 * i);
        data[i] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    }
    return syscall(SYS_capset, &header, data) ? -errno : 0;
}
