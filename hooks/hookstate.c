/*
 * The container's root, by the state that the runtime writes to a hook's stdin, and by the bundle's config.json.
 *
 * crun's state has the root (relative to the bundle, or absolute); with runc it is in config.json. Both files come from
 * the runtime and the engine, so their paths are used unchecked; the tree below the root is not trusted.
 *
 * crun starts a createContainer hook in the container's user namespace, in which an engine's bundle cannot be read.
 * Then the state's root is sufficient: the ids of config.json are needed on the host only.
 */
#define _GNU_SOURCE
#include "hook.h"
#include "json.h"
#include "places.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_SIZE = 4 << 20, CONFIG_SIZE = 16 << 20, WAIT = 10000 };

/* Reads up to a limit and returns the size. wait: give up after WAIT without data in an open pipe. */
static ssize_t read_all(int fd, bool wait, char *into, size_t room)
{
    size_t have = 0;

    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int ready = wait ? poll(&poll_fd, 1, WAIT) : 1;
        if (ready == 0)
            return -ETIMEDOUT;
        ssize_t got = ready < 0 ? -1 : read(fd, into + have, room - have);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (got == 0)
            return (ssize_t)have;
        have += got > 0 ? (size_t)got : 0;
        if (have == room)
            return -EFBIG;
    }
}

static ssize_t read_path(const char *path, char *into, size_t room)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return -errno;
    return S_ISREG(st.st_mode) ? read_all(fd, false, into, room) : -EINVAL;
}

/* The host id of the container's id 0; 0 without a mapping of it. */
static int64_t read_mapping(struct json *json)
{
    char name[16];
    int64_t host_id = 0;

    if (!json_enter(json, '[')) {
        json_skip(json);
        return 0;
    }
    while (json_more(json)) {
        int64_t container = -1, host = 0;
        if (!json_enter(json, '{')) {
            json_skip(json);
            continue;
        }
        while (json_member(json, name, sizeof name)) {
            if (!strcmp(name, "containerID"))
                json_integer(json, &container);
            else if (!strcmp(name, "hostID"))
                json_integer(json, &host);
            else
                json_skip(json);
        }
        if (container == 0 && host > 0 && host < UINT32_MAX)
            host_id = host;
    }
    return host_id;
}

static void read_linux(struct json *json, struct hook_target *target)
{
    char name[16];

    if (!json_enter(json, '{')) {
        json_skip(json);
        return;
    }
    while (json_member(json, name, sizeof name)) {
        if (!strcmp(name, "uidMappings"))
            target->uid = read_mapping(json);
        else if (!strcmp(name, "gidMappings"))
            target->gid = read_mapping(json);
        else
            json_skip(json);
    }
}

static void read_root(struct json *json, char *path, size_t room)
{
    char name[16];

    if (!json_enter(json, '{')) {
        json_skip(json);
        return;
    }
    while (json_member(json, name, sizeof name)) {
        if (!strcmp(name, "path"))
            json_string(json, path, room);
        else
            json_skip(json);
    }
}

static bool parse_config(const char *text, size_t size, struct hook_target *target, char *path, size_t room)
{
    struct json json;
    char name[16];

    json_open(&json, text, size);
    if (!json_enter(&json, '{'))
        return false;
    while (json_member(&json, name, sizeof name)) {
        if (!strcmp(name, "root"))
            read_root(&json, path, room);
        else if (!strcmp(name, "linux"))
            read_linux(&json, target);
        else
            json_skip(&json);
    }
    return json_done(&json);
}

static bool parse_state(const char *text, size_t size, struct hook_target *target)
{
    struct json json;
    char name[16];

    json_open(&json, text, size);
    if (!json_enter(&json, '{'))
        return false;
    while (json_member(&json, name, sizeof name)) {
        if (!strcmp(name, "bundle"))
            json_string(&json, target->bundle, sizeof target->bundle);
        else if (!strcmp(name, "root"))
            json_string(&json, target->root, sizeof target->root);
        else if (!strcmp(name, "id"))
            json_string(&json, target->id, sizeof target->id);
        else if (!strcmp(name, "pid"))
            json_integer(&json, &target->pid);
        else
            json_skip(&json);
    }
    return json_done(&json);
}

/* Whether this hook runs in the container's user namespace, as in later stages: there the id of its root is 0. */
static bool inside(int64_t host)
{
    char text[256] = {0};
    long long first, mapped;

    if (read_path("/proc/self/uid_map", text, sizeof text - 1) <= 0)
        return false;
    return sscanf(text, "%lld %lld", &first, &mapped) == 2 && first == 0 && mapped == host;
}

static int read_config(struct hook_target *target, char *text, struct fault *fault)
{
    char file[sizeof target->bundle + 16], path[sizeof target->root] = "";

    snprintf(file, sizeof file, "%s/config.json", target->bundle);
    ssize_t size = read_path(file, text, CONFIG_SIZE);
    if (size < 0 && (!*target->root || is_rootful()))
        return fault_set(fault, (int)-size, "cannot read %s", file);
    if (size >= 0 && !parse_config(text, (size_t)size, target, path, sizeof path))
        return fault_say(fault, EBADMSG, "%s is not the JSON object of a bundle", file);
    if (inside(target->uid))
        target->uid = target->gid = 0;
    if (*target->root)
        strcpy(path, target->root);
    int length = snprintf(target->root, sizeof target->root, "%s%s%s", *path == '/' ? "" : target->bundle,
                          *path == '/' ? "" : "/", path);
    if (!*path || length >= (int)sizeof target->root)
        return fault_say(fault, EBADMSG, "%s names no root.path", file);
    return 0;
}

/* Whether a process has another mount namespace than this one. */
static bool is_elsewhere(int64_t pid)
{
    char path[64];
    struct stat mine, other;

    snprintf(path, sizeof path, "/proc/%lld/ns/mnt", (long long)pid);
    if (stat("/proc/self/ns/mnt", &mine) || stat(path, &other))
        return false;
    return mine.st_ino != other.st_ino || mine.st_dev != other.st_dev;
}

/*
 * Hooks of the stages prestart and createRuntime run in the host's mount namespace, without the container's mounts. The
 * container's process has these mounts, so the root is opened through /proc/PID/root, if it is the same directory
 * there.
 */
void hook_target_enter(const struct hook_target *target, struct root *root)
{
    char path[64];
    struct stat mine, other;

    if (target->pid <= 1 || !is_elsewhere(target->pid))
        return;
    snprintf(path, sizeof path, "/proc/%lld/root", (long long)target->pid);
    cleanup_fd int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct root view = {.fd = top};
    int fd = top < 0 ? -1 : root_resolve(&view, target->root, O_PATH | O_DIRECTORY);
    if (fd < 0)
        return;
    bool same =
        !fstat(root->fd, &mine) && !fstat(fd, &other) && mine.st_dev == other.st_dev && mine.st_ino == other.st_ino;
    close_fd(same ? &root->fd : &fd);
    if (same)
        root->fd = fd;
}

int hook_target_read(const struct hook_call *call, struct hook_target *target, struct fault *fault)
{
    bool from_file = call->state && strcmp(call->state, "-");
    char *text = malloc(CONFIG_SIZE); /* unused pages cost nothing */

    *target = (struct hook_target){0};
    if (!text)
        return fault_set(fault, ENOMEM, "no memory for the state");
    ssize_t size =
        from_file ? read_path(call->state, text, STATE_SIZE) : read_all(STDIN_FILENO, true, text, STATE_SIZE);
    int rc = 0;
    if (size < 0)
        rc = fault_set(fault, (int)-size, "cannot read the container's state");
    else if (!parse_state(text, (size_t)size, target) || *target->bundle != '/')
        rc = fault_say(fault, EBADMSG, "the container's state is not the JSON object that runtimes write");
    else
        rc = read_config(target, text, fault);
    free(text);
    return rc;
}
