/*
 * The small hooks: create-symlinks, and the profile that hides other GPUs from EGL.
 *
 * A repeated run does not change the tree: correct files and links are left alone, and files have fixed names.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096 };

/* ---- create-symlinks ---- */

static bool link_is(int folder, const char *name, const char *target)
{
    char text[PATH];
    ssize_t length = readlinkat(folder, name, text, sizeof text);

    return length >= 0 && (size_t)length == strlen(target) && !memcmp(text, target, (size_t)length);
}

/* Makes a link, and its parent directories; a correct link is left alone. */
static int make_link(const struct root *root, const char *path, const char *target)
{
    const char *base;
    cleanup_fd int folder = root_parent(root, path, &base);

    if (folder == -ENOENT) {
        folder = root_mkdir_parent(root, path, 0755);
        if (!folder)
            folder = root_parent(root, path, &base);
    }
    if (folder < 0)
        return folder;
    return link_is(folder, base, target) ? 0 : root_link_at(root, folder, base, target);
}

/* Splits `TARGET::LINK`: the text of the link, and its path in the container. */
static int create_symlink(const struct root *root, const char *word, struct fault *fault)
{
    char target[PATH];
    const char *mark = strstr(word, "::");

    if (!mark || mark == word || mark[2] != '/' || (size_t)(mark - word) >= sizeof target)
        return fault_say(fault, EINVAL, "--link %s is not TARGET::/PATH/OF/LINK", word);
    memcpy(target, word, (size_t)(mark - word));
    target[mark - word] = 0;
    int rc = make_link(root, mark + 2, target);
    return rc ? fault_set(fault, -rc, "cannot make the link %s", mark + 2) : 0;
}

int hook_create_symlinks(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    int first = 0;

    for (size_t i = 0; i < call->links.count; i++) {
        int rc = create_symlink(root, call->links.items[i], first ? NULL : fault);
        if (!first)
            first = rc;
    }
    return first;
}

static bool every_name(const void *context, const char *way)
{
    (void)context;
    return *way;
}

int hook_each_name(const struct root *root, const char *path, int (*take)(const struct dirent *, void *), void *context)
{
    bool foreign;
    int inside = cover_check_inside(root, path, every_name, NULL);
    cleanup_fd int fd = inside ? inside : root_directory(root, path, &foreign);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1;
    int rc = 0;
    for (struct dirent *entry; !rc && (entry = readdir(dir));)
        rc = root_late(root) ? root_late(root) : take(entry, context);
    closedir(dir);
    return rc;
}

/* ---- update-application-profile ---- */

static const char profile_folder[] = "/etc/nvidia/nvidia-application-profiles-rc.d";

static void take_node(const char *name, uint64_t *mask)
{
    const char *number = name + 6;
    char *end;

    if (strncmp(name, "nvidia", 6) || *number < '0' || *number > '9')
        return;
    unsigned long minor = strtoul(number, &end, 10);
    if (!*end && minor < 64)
        *mask |= 1ull << minor;
}

static int take_gpu(const struct dirent *entry, void *context)
{
    take_node(entry->d_name, context);
    return 0;
}

/* Before the container is created its nodes are not in the tree yet: then only `sources` has them. */
static int find_gpus(const struct root *root, const struct hook_call *call, uint64_t *mask)
{
    static const char folder[] = "/dev/";

    for (size_t i = 0; i < call->source_count; i++)
        if (!strncmp(call->sources[i].path, folder, sizeof folder - 1))
            take_node(call->sources[i].path + sizeof folder - 1, mask);
    return call->source_count ? 0 : hook_each_name(root, "/dev", take_gpu, mask);
}

int hook_application_profile(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    char path[sizeof profile_folder + 32], text[256];
    uint64_t mask = 0;
    int rc = find_gpus(root, call, &mask);

    if (rc)
        return fault_set(fault, -rc, "cannot read the container's /dev");
    if (!mask)
        return 0;
    int length =
        snprintf(text, sizeof text,
                 "{\"profiles\": [{\"name\": \"_container_\", \"settings\": [\"EGLVisibleDGPUDevices\", %llu]}],\n"
                 " \"rules\": [{\"pattern\": [], \"profile\": \"_container_\"}]}\n",
                 (unsigned long long)mask);
    snprintf(path, sizeof path, "%s/10-container.conf", profile_folder);
    if (root_holds(root, path, text, (size_t)length))
        return 0;
    rc = root_mkdir(root, profile_folder, 0755);
    if (!rc)
        rc = root_replace(root, path, text, (size_t)length, 0644);
    return rc ? fault_set(fault, -rc, "cannot write %s", path) : 0;
}
