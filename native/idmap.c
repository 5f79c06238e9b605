/*
 * Whether a file system supports idmapped mounts: the kernel has no list of these, so it is tried.
 *
 * Before Linux 5.12 none does, overlayfs does not (most versions), and each of the others does from another version on.
 * A low-level runtime fails on an option that the file system refuses. The trial is what the runtime does: a copy of
 * the mount that is attached nowhere, and mount_setattr on that (mount_setattr(2)).
 *
 * It needs a user namespace other than the initial one, with a mapping. Only a process can have a namespace: a child
 * creates it, and leaves an open descriptor in the table that both share. The child shares the memory, too, and the
 * parent waits meanwhile, as with vfork(2), so that no memory of the caller is copied; it starts no program.
 */
#define _GNU_SOURCE
#include "idmap.h"
#include "newcalls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

enum { STACK = 64 * 1024 };

static int put(const char *path, const char *text)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -EIO;
}

struct child {
    uid_t uid;
    gid_t gid;
    int result; /* a descriptor, or an error */
};

static void map_line(char *into, unsigned id)
{
    char digits[16];
    size_t count = 0;

    *into++ = '0';
    *into++ = ' ';
    do {
        digits[count++] = (char)('0' + id % 10);
    } while (id /= 10);
    while (count)
        *into++ = digits[--count];
    memcpy(into, " 1\n", 4);
}

/* In a new user namespace: map what needs no privilege (user_namespaces(7)), one id of each kind. */
static int in_child(void *argument)
{
    struct child *child = argument;
    char uid[32], gid[32];

    map_line(uid, child->uid);
    map_line(gid, child->gid);
    child->result = put("/proc/self/setgroups", "deny\n");
    if (!child->result)
        child->result = put("/proc/self/uid_map", uid);
    if (!child->result)
        child->result = put("/proc/self/gid_map", gid);
    if (!child->result) {
        child->result = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        if (child->result < 0)
            child->result = -errno;
    }
    return 0;
}

/* A descriptor of a user namespace with a mapping. */
static int mapped_namespace(void)
{
    static _Alignas(16) char stack[STACK];
    struct child child = {.uid = geteuid(), .gid = getegid(), .result = -EIO};
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* a handler would run in the child, on memory of the parent */
    pid_t pid = clone(in_child, stack + STACK, CLONE_NEWUSER | CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &child);
    int rc = pid < 0 ? -errno : 0;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc ? rc : child.result;
}

int can_map_ids(const char *path, bool recursive)
{
    unsigned below = recursive ? AT_RECURSIVE : 0;
    cleanup_fd int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | below);
    if (tree < 0)
        return errno == ENOSYS ? 0 : -errno;
    cleanup_fd int mapped = mapped_namespace();
    if (mapped < 0)
        return mapped;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)mapped};
    if (!syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | below, &attr, sizeof attr))
        return 1;
    return errno == EINVAL || errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
}
