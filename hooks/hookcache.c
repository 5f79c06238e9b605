/*
 * The hook update-ldcache: finds the loaders of a root, and writes the file that each of them reads.
 *
 * glibc reads /etc/ld.so.cache. musl searches the directories in /etc/ld-musl-ARCH.path, and without that file three
 * built-in directories, so a new file begins with these; in the directories it opens soname links, as glibc does
 * without a cache. A root without a loader (statically linked programs) gets the cache as well, since tools read it,
 * but only if it has an /etc.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MUSL_FILE = 64 * 1024, LOADERS = 8 };

struct loaders {
    bool glibc;
    unsigned musl_count;
    char musl[LOADERS][32]; /* architectures */
};

/* FOREIGN: the directory is on another mount, whose owner must not choose which file of /etc is read and written. */
static void take_loader(struct loaders *loaders, const char *name, bool foreign)
{
    static const char musl[] = "ld-musl-", end[] = ".so.1";
    size_t length = strlen(name);

    if (!strncmp(name, "ld-linux", 8) || !strncmp(name, "ld64.so.", 8))
        loaders->glibc = true;
    if (foreign || strncmp(name, musl, sizeof musl - 1) || length < sizeof musl + sizeof end ||
        loaders->musl_count == LOADERS)
        return;
    size_t arch = length - (sizeof musl - 1) - (sizeof end - 1);
    if (strcmp(name + length - (sizeof end - 1), end) || arch >= sizeof loaders->musl[0])
        return;
    memcpy(loaders->musl[loaders->musl_count], name + sizeof musl - 1, arch);
    loaders->musl[loaders->musl_count++][arch] = 0;
}

static int find_loaders(const struct root *root, struct loaders *loaders)
{
    static const char *const folders[] = {"/lib", "/lib64"};

    *loaders = (struct loaders){0};
    for (size_t i = 0; i < 2; i++) {
        bool foreign;
        cleanup_fd int fd = root_directory(root, folders[i], &foreign);
        if (fd < 0)
            continue;
        DIR *dir = fdopendir(fd);
        if (!dir)
            return -errno;
        fd = -1;
        for (struct dirent *entry; (entry = readdir(dir));)
            if (entry->d_name[0] == 'l')
                take_loader(loaders, entry->d_name, foreign);
        closedir(dir);
    }
    return root_late(root);
}

/* ---- musl ---- */

/* Whether a list, separated by colons and newlines, has this directory. */
static bool listed(const char *list, const char *folder)
{
    size_t size = strlen(folder);

    while (*list) {
        size_t length = strcspn(list, ":\n");
        if (length == size && !memcmp(list, folder, size))
            return true;
        list += length + (list[length] != 0);
    }
    return false;
}

static int add_folder(char *list, size_t room, const char *folder)
{
    size_t used = strlen(list);
    const char *gap = used && list[used - 1] != '\n' ? "\n" : "";

    if (*folder != '/' || strpbrk(folder, ":\n"))
        return -EINVAL;
    if (listed(list, folder))
        return 0;
    int length = snprintf(list + used, room - used, "%s%s\n", gap, folder);
    return length < 0 || (size_t)length >= room - used ? -EFBIG : 0;
}

/* Reads musl's list, 0 bytes when it is missing. *owner gets owner and mode of the old file, for the new file. */
static int read_list(const struct root *root, const char *path, char list[MUSL_FILE], struct root *owner, mode_t *mode)
{
    static const char builtin[] = "/lib\n/usr/local/lib\n/usr/lib\n";
    struct stat st;
    cleanup_fd int fd = root_config(root, path, false, &st);

    if (fd == -ENOENT) {
        strcpy(list, builtin);
        return 0;
    }
    ssize_t have = fd < 0 ? fd : root_read(root, fd, list, MUSL_FILE - 1);
    if (have < 0)
        return (int)have;
    owner->uid = st.st_uid;
    owner->gid = st.st_gid;
    *mode = st.st_mode & 0777;
    return (int)strlen(list);
}

/* The list is copied and extended, so the mode stays: no further users may read its text. */
static int update_musl(const struct root *root, const char *arch, const struct hook_call *call, struct fault *fault)
{
    char path[64], list[MUSL_FILE] = "";
    struct root owner = *root;
    mode_t mode = 0644;

    snprintf(path, sizeof path, "/etc/ld-musl-%s.path", arch);
    int before = read_list(root, path, list, &owner, &mode);
    if (before == -ELOOP)
        return fault_say(fault, ELOOP,
                         "%s is a link, which is neither followed nor replaced: the image needs a file there", path);
    if (before < 0)
        return fault_set(fault, -before, "cannot read %s", path);
    int rc = 0;
    for (size_t i = 0; !rc && i < call->folders.count; i++)
        rc = add_folder(list, sizeof list, call->folders.items[i]);
    if (!rc && strlen(list) != (size_t)before)
        rc = root_replace(&owner, path, list, strlen(list), mode);
    return rc ? fault_set(fault, -rc, "cannot write %s", path) : 0;
}

/* ---- the hook ---- */

static int update(const struct root *root, const struct hook_call *call, bool links_only, struct fault *fault)
{
    /* A start must leave no work for the next start. With --root the result is that of a single run of ldconfig. */
    const struct ld_options options = {
        .folders = call->folders.items,
        .folder_count = call->folders.count,
        .sources = call->sources,
        .source_count = call->source_count,
        .generator = call->generator,
        .keep_links = call->keep_links,
        .settle = call->settle || !call->root,
        .replace_empty = !call->root,
        .links_only = links_only,
        .elsewhere = call->elsewhere,
    };
    struct ld_report done;
    int rc = ld_update(root, &options, &done, fault);

    if (!rc && done.remark.code) {
        if (fault)
            *fault = done.remark;
        rc = -done.remark.code;
    }
    return rc;
}

int hook_update_ldcache(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    struct loaders loaders;
    struct stat st;
    int rc = find_loaders(root, &loaders);

    if (rc)
        return fault_set(fault, -rc, "cannot search for loaders");
    if (call->elsewhere && loaders.musl_count && !loaders.glibc)
        return fault_set(fault, EROFS, "cannot write what the loader reads");
    if (call->elsewhere)
        return update(root, call, false, fault);
    bool none = !loaders.glibc && !loaders.musl_count;
    if (root_stat(root, "/etc", &st) == -ENOENT) {
        if (none)
            return 0;
        rc = root_mkdir(root, "/etc", 0755);
        if (rc)
            return fault_set(fault, -rc, "cannot make /etc");
    }
    for (unsigned i = 0; i < loaders.musl_count && call->folders.count; i++) {
        int musl = update_musl(root, loaders.musl[i], call, rc ? NULL : fault);
        rc = rc ? rc : musl;
    }
    /* musl reads no cache: it needs these links to find a driver's files by the names that programs use. */
    int libraries = update(root, call, loaders.musl_count && !loaders.glibc, rc ? NULL : fault);
    return rc ? rc : libraries;
}
