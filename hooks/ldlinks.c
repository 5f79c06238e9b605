/*
 * The soname links of a directory: leaves correct links alone, makes and changes others.
 *
 * Most decisions need only the directory's table; for facts that a listing does not show there are system calls.
 *
 * There is a difference to ldconfig. A low-level runtime creates an empty file as the mount point of each file that it
 * mounts, and an image that is made from such a container has these files. In a directory with a driver's libraries
 * programs would load such a file instead of a soname link's target ("file too short"), so there the link replaces it.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Debian leaves the link of a dynamic loader alone. Its list lacks two commas, so some names are missing here, too. */
static bool loader_name(const char *soname)
{
    static const char *const names[] = {"ld-kfreebsd-x86-64.so.1",
                                        "ld-linux-aarch64.so.1",
                                        "ld-linux-aarch64_be.so.1",
                                        "ld-linux-armhf.so.3",
                                        "ld-linux-ia64.so.2",
                                        "ld-linux-mipsn8.so.1",
                                        "ld-linux-x86-64.so.2",
                                        "ld-linux.so.2",
                                        "ld-linux.so.3",
                                        "ld.so.1",
                                        "ld64.so.1",
                                        "ld64.so.2"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], soname))
            return true;
    return false;
}

static bool plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

/* Whether a driver's libraries come into the directory, and empty files are to be replaced there. */
static bool is_injected(const struct ld_walk *walk)
{
    return walk->work->replace_empty && walk->dir->injected;
}

enum verdict { LEAVE, MAKE, REPLACE };

/* The decision about a soname link by the directory's table; -1: it is not sufficient, see judge_by_kernel. */
static int judge_by_table(const struct ld_walk *walk, const struct ld_lib *lib)
{
    if (!plain_name(lib->soname) || !ld_trusted(walk))
        return -1;
    struct ld_entry *existing = ld_find(walk->dir, lib->soname);
    if (!existing)
        return ld_wanted(walk->work, walk->dir, lib->soname, DT_REG) ? MAKE : -1;
    if (existing->type == 0)
        return MAKE;
    if (existing->type == DT_REG)
        return existing == lib->entry || existing->injected || !is_injected(walk) ? LEAVE : -1;
    struct ld_entry *existing_file = ld_follow(walk->dir, existing), *library_file = ld_follow(walk->dir, lib->entry);
    return existing_file && existing_file == library_file ? LEAVE : -1;
}

/* The decision about a file or directory with the name of a soname link; see the top of this file. */
static enum verdict judge_other(const struct ld_walk *walk, const char *link, const struct ld_lib *lib,
                                const struct stat *st)
{
    struct ld_work *work = walk->work;

    if (!is_injected(walk) || ld_source_over(work, st->st_dev, st->st_ino))
        return LEAVE;
    if (S_ISREG(st->st_mode) && st->st_size == 0)
        return REPLACE;
    if (!work->remark.code)
        fault_say(&work->remark, EEXIST, "%s is not a link, so it stays, and %s is not found by this name", link,
                  lib->entry->name);
    return LEAVE;
}

static int judge_by_kernel(const struct ld_walk *walk, const char *file, const char *link, const struct ld_lib *lib)
{
    const struct root *root = walk->work->root;
    struct stat file_st, link_st, own_st;
    int target_rc = root_stat(root, link, &link_st), link_rc = root_lstat(root, link, &own_st);

    if (ld_is_fatal(target_rc) || ld_is_fatal(link_rc))
        return ld_is_fatal(target_rc) ? target_rc : link_rc;
    if (!target_rc) {
        if (root_stat(root, file, &file_st))
            return LEAVE;
        if (file_st.st_dev == link_st.st_dev && file_st.st_ino == link_st.st_ino)
            return LEAVE;
        if (!link_rc && !S_ISLNK(own_st.st_mode))
            return judge_other(walk, link, lib, &own_st);
        if (walk->work->profile->debian && loader_name(lib->soname))
            return LEAVE;
        return REPLACE;
    }
    return !link_rc && S_ISLNK(own_st.st_mode) ? REPLACE : MAKE;
}

static int make_link(const struct ld_walk *walk, const struct ld_lib *lib, const char *path, enum verdict verdict)
{
    const struct root *root = walk->work->root;
    const char *base = lib->soname;

    if (!ld_ours(walk))
        return -EXDEV;
    cleanup_fd int other = plain_name(lib->soname) ? -1 : root_parent(root, path, &base);
    if (other < 0 && !plain_name(lib->soname))
        return other;
    int folder = other < 0 ? walk->dir->fd : other;
    if (verdict == REPLACE)
        return root_link_at(root, folder, base, lib->entry->name);
    return root_link_new(root, folder, base, lib->entry->name);
}

/* Enters a new link into the table, or declares all tables invalid. */
static int remember_link(struct ld_walk *walk, const struct ld_lib *lib)
{
    struct ld_dir *dir = walk->dir;

    if (!plain_name(lib->soname)) {
        walk->work->state++;
        return 0;
    }
    if (!ld_trusted(walk))
        return 0;
    uint32_t *slot = ld_slot(dir, lib->soname);
    struct ld_entry *entry = *slot ? dir->entries[*slot - 1] : arena_get(&walk->work->arena, sizeof *entry);
    dir->entries = arena_grow(&walk->work->arena, dir->entries, dir->count, &dir->room, sizeof *dir->entries);
    if (!entry || !dir->entries)
        return -ENOMEM;
    if (!*slot) {
        *entry = (struct ld_entry){.name = lib->soname};
        dir->entries[dir->count++] = entry;
        *slot = (uint32_t)dir->count;
    }
    entry->type = DT_LNK;
    entry->target = lib->entry->name;
    return 0;
}

int ld_maintain(struct ld_walk *walk, const struct ld_lib *lib)
{
    struct ld_work *work = walk->work;
    int verdict = judge_by_table(walk, lib);
    if (verdict == LEAVE)
        return 0;
    const char *link = arena_join(&work->arena, walk->dir->path, lib->soname);
    const char *file = arena_join(&work->arena, walk->dir->path, lib->entry->name);

    if (!link || !file)
        return -ENOMEM;
    int rc = -EEXIST;
    if (verdict == MAKE)
        rc = make_link(walk, lib, link, MAKE);
    if (verdict < 0 || (verdict == MAKE && rc == -EEXIST)) { /* a fact that a listing does not show */
        verdict = judge_by_kernel(walk, file, link, lib);
        if (verdict < 0)
            return verdict;
        if (verdict != LEAVE)
            rc = make_link(walk, lib, link, (enum verdict)verdict);
    }
    if (verdict == LEAVE)
        return 0;
    if (!rc) {
        work->links_made++;
        return remember_link(walk, lib);
    }
    work->links_refused++;
    if (rc == -EROFS || rc == -EXDEV)
        return 1;
    if (is_injected(walk) && !work->remark.code)
        fault_set(&work->remark, -rc, "cannot make the link %s", link);
    return 0;
}
