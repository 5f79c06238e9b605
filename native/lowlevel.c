/*
 * The low-level runtime that a launcher executes: the target of the administrator's link, else the result of a search.
 *
 *     /etc/shim/low-level/NAME      NAME is the last part of the launcher's argv[0]
 *     without it, for shim-X        X
 *                 for shim          runc, then crun
 *                 for another name  that name: the launcher is installed instead of a runtime
 *
 * The directories for programs are searched for all names first, and PATH last: if possible, the result does not depend
 * on PATH. A launcher never finds itself, by device and inode. Python calls the same functions for another launcher, in
 * tests below another root (shim/engines/launcher.py, shim/cli/explain.py).
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

void low_level_begin(struct low_level *low, const char *root, const char *name, const char *launcher)
{
    struct stat status;
    low->root = root;
    low->name = name;
    low->path[0] = low->link[0] = low->own[0] = low->wanted[0] = '\0';
    low->dev = 0;
    low->ino = 0;
    if (stat(launcher, &status) == 0) {
        low->dev = status.st_dev;
        low->ino = status.st_ino;
    }
}

/* stat of low->path below the root. False if it leads nowhere, or is too long. */
static bool look(const struct low_level *low, char real[2 * PATH_MAX], struct stat *status)
{
    return snprintf(real, 2 * PATH_MAX, "%s%s", low->root, low->path) < 2 * PATH_MAX && stat(real, status) == 0;
}

static bool is_launcher(const struct low_level *low, const struct stat *status)
{
    return status->st_dev == low->dev && status->st_ino == low->ino;
}

enum low_level_answer low_level_by_link(struct low_level *low)
{
    char real[2 * PATH_MAX];
    struct stat target;
    if (snprintf(low->link, sizeof low->link, LOW_LEVEL_LINKS "/%s", low->name) >= (int)sizeof low->link)
        return LOW_LEVEL_MISSING;
    if (snprintf(real, sizeof real, "%s%s", low->root, low->link) >= (int)sizeof real)
        return LOW_LEVEL_MISSING;
    ssize_t size = readlink(real, low->path, sizeof low->path - 1);
    if (size < 0)
        return errno == EINVAL ? LOW_LEVEL_NO_LINK : LOW_LEVEL_MISSING;
    low->path[size] = '\0';
    if (low->path[0] != '/')
        return LOW_LEVEL_RELATIVE;
    return look(low, real, &target) && is_launcher(low, &target) ? LOW_LEVEL_SELF : LOW_LEVEL_FOUND;
}

/* Whether the directory holds a program of this name. If it is the launcher, its path is stored in `own` instead. */
static bool is_in(struct low_level *low, const char *directory, size_t size, const char *name)
{
    char real[2 * PATH_MAX];
    struct stat status;
    if (snprintf(low->path, sizeof low->path, "%.*s/%s", (int)size, directory, name) >= (int)sizeof low->path)
        return false;
    if (!look(low, real, &status) || !S_ISREG(status.st_mode) || faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) != 0)
        return false;
    if (!is_launcher(low, &status))
        return true;
    strcpy(low->own, low->path);
    return false;
}

/* Parts of PATH that are not absolute would depend on the working directory, which is a bundle. */
static bool is_in_path(struct low_level *low, const char *path, const char *name)
{
    for (const char *part = path ? path : ""; *part;) {
        size_t size = strcspn(part, ":");
        if (*part == '/' && is_in(low, part, size, name))
            return true;
        part += size + (part[size] == ':');
    }
    return false;
}

enum low_level_answer low_level_by_search(struct low_level *low, const char *path)
{
    const char *names[] = {"runc", "crun"};
    size_t count = 2;
    if (strcmp(low->name, "shim") != 0) {
        names[0] = strncmp(low->name, "shim-", 5) == 0 ? low->name + 5 : low->name;
        count = 1;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < PROGRAM_DIRECTORIES; j++)
            if (is_in(low, program_directories[j], strlen(program_directories[j]), names[i]))
                return LOW_LEVEL_FOUND;
    for (size_t i = 0; i < count; i++)
        if (is_in_path(low, path, names[i]))
            return LOW_LEVEL_FOUND;
    snprintf(low->wanted, sizeof low->wanted, "%s%s", names[0], count == 2 ? " or crun" : "");
    return LOW_LEVEL_MISSING;
}
