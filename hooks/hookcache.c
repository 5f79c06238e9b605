/*
 * The hook update-ldcache: which loaders a root has, and what each of them reads.
 *
 * glibc reads /etc/ld.so.cache. musl reads /etc/ld-musl-ARCH.path, and without that file three built-in directories, so a
 * file that we make begins with these; in the directories it looks for soname links, as glibc does without a cache. A root without any loader (statically linked programs) gets the cache all the same,
 * since tools read it, but only if there is an /etc: nothing is made for nobody.
 */
#define _GNU_SOURCE
#include "native.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MUSL_FILE = 64 * 1024, LOADERS = 8 };

struct loaders {
    bool glibc;
    unsigned musl_count;
    char musl[LOADERS][32];   /* architectures */
};

static void take_loader(struct loaders *found, const char *name)
{
    static const char musl[] = "ld-musl-", end[] = ".so.1";
    size_t length = strlen(name);

    if (!strncmp(name, "ld-linux", 8) || !strncmp(name, "ld64.so.", 8))
        found->glibc = true;
    if (strncmp(name, musl, sizeof musl - 1) || length < sizeof musl + sizeof end || found->musl_count == LOADERS)
        return;
    size_t arch = length - (sizeof musl - 1) - (sizeof end - 1);
    if (strcmp(name + length - (sizeof end - 1), end) || arch >= sizeof found->musl[0])
        return;
    memcpy(found->musl[found->musl_count], name + sizeof musl - 1, arch);
    found->musl[found->musl_count++][arch] = 0;
}

static int find_loaders(const struct root *root, struct loaders *found)
{
    static const char *const folders[] = {"/lib", "/lib64"};

    *found = (struct loaders){0};
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
                take_loader(found, entry->d_name);
        closedir(dir);
    }
    return root_late(root);
}

/* ---- musl ---- */

/* Whether a list that is separated by colons and newlines has this directory. */
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

static int update_musl(const struct root *root, const char *arch, const struct hook_call *call, struct fault *fault)
{
    static const char builtin[] = "/lib\n/usr/local/lib\n/usr/lib\n";
    char path[64], list[MUSL_FILE] = "";

    snprintf(path, sizeof path, "/etc/ld-musl-%s.path", arch);
    ssize_t have = root_read(root, path, list, sizeof list - 1);
    if (have == -ENOENT)
        strcpy(list, builtin);
    else if (have < 0)
        return fault_set(fault, (int)-have, "cannot read %s", path);
    size_t before = have == -ENOENT ? 0 : strlen(list);
    int rc = 0;
    for (size_t i = 0; !rc && i < call->folder_count; i++)
        rc = add_folder(list, sizeof list, call->folders[i]);
    if (!rc && strlen(list) != before)
        rc = root_replace(root, path, list, strlen(list), 0644);
    return rc ? fault_set(fault, -rc, "cannot write %s", path) : 0;
}

/* ---- the hook ---- */

static int update(const struct root *root, const struct hook_call *call, bool links_only, struct fault *fault)
{
    struct ld_options options = {.folders = call->folders, .folder_count = call->folder_count, .generator = call->generator};
    struct ld_report done;

    options.links_only = links_only;

    options.sources = call->sources;
    options.source_count = call->source_count;
    options.elsewhere = call->elsewhere;
    options.keep_links = call->keep_links;
    /* A start must leave nothing for the next one to do, and injected folders must be found. With --root the result is
     * what one run of ldconfig makes. */
    options.settle = call->settle || !call->root;
    options.must_find = !call->root;
    return ld_update(root, &options, &done, fault);
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
    for (unsigned i = 0; i < loaders.musl_count && call->folder_count; i++) {
        int musl = update_musl(root, loaders.musl[i], call, rc ? NULL : fault);
        rc = rc ? rc : musl;
    }
    /* musl reads no cache, but a driver's files have the names that programs ask for only by these links. */
    int libraries = update(root, call, loaders.musl_count && !loaders.glibc, rc ? NULL : fault);
    return rc ? rc : libraries;
}
