/*
 * Which low-level runtime a launcher becomes: the one that the administrator's link names, else the one that is found.
 *
 *     /etc/shim/low-level/NAME      NAME is the last part of the launcher's argv[0]
 *     without it, for shim-X        X
 *                 for shim          runc, then crun
 *                 for another name  that name: the launcher has taken a runtime's place
 *
 * The directories for programs are searched for all names first, and PATH last: the answer must not depend on PATH where
 * it can be had without. No launcher finds itself, by device and inode. Python asks the same functions for what another
 * launcher would become, below another root in tests (shim/engines/launcher.py, shim/cli/explain.py).
 */
#define _GNU_SOURCE
#include "lowlevel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *const low_level_links = LOW_LEVEL_LINKS;

const char *const program_directories[PROGRAM_DIRECTORIES] = {
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
};

/* Where and for whom is searched. */
struct search {
    const char *root;
    dev_t dev;              /* of the launcher, which is never found */
    ino_t ino;
    struct low_level *out;
};

static struct search search_of(const char *root, const char *launcher, struct low_level *out)
{
    struct search search = { .root = root, .out = out };
    struct stat status;
    if (stat(launcher, &status) == 0) {
        search.dev = status.st_dev;
        search.ino = status.st_ino;
    }
    out->path[0] = out->own[0] = '\0';
    return search;
}

/* Looks at a path below the root. False where it leads nowhere, or is too long. */
static bool look(const struct search *search, const char *path, struct stat *status)
{
    char real[2 * PATH_MAX];
    return snprintf(real, sizeof real, "%s%s", search->root, path) < (int)sizeof real && stat(real, status) == 0;
}

static bool is_launcher(const struct search *search, const struct stat *status)
{
    return status->st_dev == search->dev && status->st_ino == search->ino;
}

enum low_level_answer low_level_by_link(const char *root, const char *name, const char *launcher, struct low_level *out)
{
    char real[3 * PATH_MAX];
    struct search search = search_of(root, launcher, out);
    struct stat target;
    if (snprintf(out->link, sizeof out->link, LOW_LEVEL_LINKS "/%s", name) >= (int)sizeof out->link)
        return LOW_LEVEL_MISSING;
    snprintf(real, sizeof real, "%s%s", root, out->link);
    ssize_t size = readlink(real, out->path, sizeof out->path - 1);
    if (size < 0)
        return errno == EINVAL ? LOW_LEVEL_NO_LINK : LOW_LEVEL_MISSING;
    out->path[size] = '\0';
    if (out->path[0] != '/')
        return LOW_LEVEL_RELATIVE;
    return look(&search, out->path, &target) && is_launcher(&search, &target) ? LOW_LEVEL_SELF : LOW_LEVEL_FOUND;
}

/* Whether the directory holds a program of this name. If it is the launcher, its path is stored in `own` instead. */
static bool is_in(const struct search *search, const char *directory, size_t size, const char *name)
{
    char real[2 * PATH_MAX];
    struct stat found;
    struct low_level *out = search->out;
    if (snprintf(out->path, sizeof out->path, "%.*s/%s", (int)size, directory, name) >= (int)sizeof out->path)
        return false;
    if (!look(search, out->path, &found) || !S_ISREG(found.st_mode))
        return false;
    snprintf(real, sizeof real, "%s%s", search->root, out->path);
    if (faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) != 0)
        return false;
    if (!is_launcher(search, &found))
        return true;
    strcpy(out->own, out->path);
    return false;
}

/* Parts of PATH that are not absolute would depend on the working directory, which is a bundle. */
static bool is_in_path(const struct search *search, const char *path, const char *name)
{
    for (const char *part = path ? path : ""; *part;) {
        size_t size = strcspn(part, ":");
        if (*part == '/' && is_in(search, part, size, name))
            return true;
        part += size + (part[size] == ':');
    }
    return false;
}

enum low_level_answer low_level_by_search(const char *root, const char *name, const char *launcher, const char *path,
                                          struct low_level *out)
{
    struct search search = search_of(root, launcher, out);
    const char *names[] = { "runc", "crun" };
    size_t count = 2;
    if (strcmp(name, "shim") != 0) {
        names[0] = strncmp(name, "shim-", 5) == 0 ? name + 5 : name;
        count = 1;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < PROGRAM_DIRECTORIES; j++)
            if (is_in(&search, program_directories[j], strlen(program_directories[j]), names[i]))
                return LOW_LEVEL_FOUND;
    for (size_t i = 0; i < count; i++)
        if (is_in_path(&search, path, names[i]))
            return LOW_LEVEL_FOUND;
    snprintf(out->wanted, sizeof out->wanted, "%s%s", names[0], count == 2 ? " or crun" : "");
    return LOW_LEVEL_MISSING;
}
