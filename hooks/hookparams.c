/*
 * The hook disable-device-node-modification: the vendor's libraries in the container must not make or change nodes.
 *
 * They do so when /proc/driver/nvidia/params has ModifyDeviceFiles: 1, so the container sees a copy with 0. The copy is
 * a file of the bundle, which belongs to the host: with a file of the container (its /dev/null, for example) an image
 * could choose what is mounted. The copy is mounted only over a file of a real procfs; a /proc from the image is left
 * alone. Source and target are held by descriptors, so no path is resolved twice.
 */
#define _GNU_SOURCE
#include "hook.h"
#include "newcalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

enum { PARAMS = 16 * 1024 };

static const char host_params[] = "/proc/driver/nvidia/params";
static const char copy_name[] = "shim-nvidia-params";
static const char setting[] = "ModifyDeviceFiles: 1";

/* Reads the host's parameters and returns their size, 0 without the driver. */
static ssize_t read_params(char *into, size_t room)
{
    cleanup_fd int fd = open(host_params, O_RDONLY | O_CLOEXEC);
    size_t have = 0;

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    for (;;) {
        ssize_t got = read(fd, into + have, room - have);
        if (got < 0)
            return -errno;
        have += (size_t)got;
        if (!got)
            return (ssize_t)have;
        if (have == room)
            return -EFBIG;
    }
}

/* Switches the setting off in the text; false when it is off already. */
static bool turn_off(char *text, size_t size)
{
    char *line = memmem(text, size, setting, sizeof setting - 1);

    if (!line || (line != text && line[-1] != '\n'))
        return false;
    line[sizeof setting - 2] = '0';
    return true;
}

/* Opens the container's file that is to be covered; -ENOENT when it is missing. */
static int open_target(const struct root *root)
{
    cleanup_fd int fd = root_at(root, host_params, O_PATH | O_NOFOLLOW, 0);
    struct statfs fs;
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstatfs(fd, &fs) || fstat(fd, &st))
        return -errno;
    if (fs.f_type != PROC_SUPER_MAGIC || !S_ISREG(st.st_mode))
        return -EINVAL;
    int kept = fd;
    fd = -1;
    return kept;
}

/* Mounts a file of a directory, read-only, over the file of a descriptor. */
static int cover(int folder, const char *name, int target)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    cleanup_fd int tree =
        (int)syscall(SYS_open_tree, folder, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) ||
        syscall(SYS_move_mount, tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
        return -errno;
    return 0;
}

int hook_device_nodes(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    char text[PARAMS];
    struct root bundle;
    ssize_t size = read_params(text, sizeof text);

    if (size < 0)
        return fault_set(fault, (int)-size, "cannot read %s", host_params);
    if (!turn_off(text, (size_t)size))
        return 0;
    if (!call->bundle)
        return fault_say(fault, EINVAL, "device nodes are a matter of a container's start, not of --root");
    cleanup_fd int target = open_target(root);
    if (target == -ENOENT || target == -ENOTDIR)
        return 0;
    if (target < 0)
        return fault_say(fault, -target, "the container's %s is not the kernel's, so it is not covered", host_params);
    int rc = root_open(&bundle, call->bundle, fault);
    if (rc)
        return rc;
    rc = root_replace(&bundle, copy_name, text, (size_t)size, 0444);
    if (!rc)
        rc = cover(bundle.fd, copy_name, target);
    root_close(&bundle);
    return rc ? fault_set(fault, -rc, "cannot cover the container's %s", host_params) : 0;
}
