/*
 * What a hook gives up before it looks at an image.
 *
 * Hooks start with everything that the runtime has, and with the image's ideas of a working directory. They run no program
 * and need to write as the container's root, so that is all that is left: an exploited parser would find little to use.
 */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * With fewer capabilities than its neighbours in a shared pid namespace a process may be traced by them, and ours has the
 * host's files before it. Nobody without CAP_SYS_PTRACE of the host gets at a process that cannot be dumped.
 */
void hide_process(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Capabilities that the caller lacks are no error: a rootless user works on what belongs to him. */
int drop_privileges(uint64_t capabilities)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || chdir("/"))
        return -errno;
    umask(022);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);  /* refused without CAP_SETPCAP; nothing is ever executed anyway */
    if (syscall(SYS_capget, &header, data))
        return -errno;
    for (int i = 0; i < 2; i++) {
        uint32_t kept = data[i].permitted & (uint32_t)(capabilities >> 32 * i);
        data[i] = (struct __user_cap_data_struct){.effective = kept, .permitted = kept};
    }
    return syscall(SYS_capset, &header, data) ? -errno : 0;
}
