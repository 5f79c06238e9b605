/*
 * The container's own /dev: the one mount over the root that a hook may write links into.
 *
 * Low-level runtimes mount a new tmpfs at /dev, so every container has /dev on another mount than its root, and links
 * such as those of /dev/dri/by-path belong there. Any other mount may be a directory of the host. So the mount counts
 * only if its file system is a tmpfs that is mounted below this root and nowhere else: a bind mount of the host's /dev,
 * or of a volume, is listed a second time in mountinfo, at its place on the host. (A hook runs in the container's mount
 * namespace before pivot_root(2), in which the host's mounts are listed, too.)
 *
 * Source: OCI runtime specification, "Default Filesystems"; proc_pid_mountinfo(5).
 */
#define _GNU_SOURCE
#include "root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { LINE = 8192 }; /* bytes: two paths, each of up to PATH_MAX, are longer, and then the mount does not count */

/* The path of the root in this mount namespace; false: it has none. */
static bool root_path(const struct root *root, char into[LINE])
{
    char name[64];

    snprintf(name, sizeof name, "/proc/self/fd/%d", root->fd);
    ssize_t length = readlink(name, into, LINE);
    if (length <= 1 || length >= LINE || *into != '/')
        return false;
    into[length] = 0;
    return true;
}

/* Decodes the escapes of a field of mountinfo, \040 for a blank, in place. */
static void unescape(char *field)
{
    char *to = field;

    for (const char *from = field; *from; to++) {
        bool escaped = *from == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                       from[3] >= '0' && from[3] <= '7';
        *to = escaped ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
        from += escaped ? 4 : 1;
    }
    *to = 0;
}

/* A line of mountinfo: 0 if it is of another file system, 1 for a mount of this one at WANTED, -1 for any other. */
static int judge(char *line, dev_t device, const char *wanted)
{
    unsigned major_number, minor_number;
    int root_at_field = 0, point = 0;

    if (sscanf(line, "%*d %*d %u:%u %n%*s %n", &major_number, &minor_number, &root_at_field, &point) != 2 || !point)
        return -1;
    if (makedev(major_number, minor_number) != device)
        return 0;
    line[point + (int)strcspn(line + point, " ")] = 0;
    bool whole = !strncmp(line + root_at_field, "/ ", 2);
    unescape(line + point);
    return whole && !strcmp(line + point, wanted) ? 1 : -1;
}

/* Whether the only mount of a file system is the one at WANTED. */
static bool is_mounted_once(dev_t device, const char *wanted)
{
    char line[LINE];
    int count = 0;
    FILE *file = fopen("/proc/self/mountinfo", "re");

    if (!file)
        return false;
    while (count >= 0 && fgets(line, sizeof line, file)) {
        int found = strchr(line, '\n') ? judge(line, device, wanted) : -1;
        count = found < 0 ? -1 : count + found;
    }
    if (ferror(file))
        count = -1;
    fclose(file);
    return count == 1;
}

static bool is_own(const struct root *root, int fd)
{
    char wanted[LINE + 8];
    struct statfs fs;
    struct stat st;

    if (!root_path(root, wanted) || fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || fstat(fd, &st))
        return false;
    strcat(wanted, "/dev");
    return is_mounted_once(st.st_dev, wanted);
}

int root_own_dev(const struct root *root, const char *path)
{
    const char *below = path + strspn(path, "/");

    if (strncmp(below, "dev", 3) || (below[3] && below[3] != '/'))
        return -EXDEV;
    below += 3;
    below += strspn(below, "/");
    int late = root_late(root);
    if (late)
        return late;
    cleanup_fd int fd = root_below(root->fd, "dev", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    if (!is_own(root, fd))
        return -EXDEV;
    return root_openat2(fd, *below ? below : ".", O_RDONLY | O_DIRECTORY,
                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}
