/*
 * A directory and its table of names, for the search (ldscan.c) and the soname links (ldlinks.c).
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <string.h>

enum { HOPS = 40 };

uint32_t ld_hash(const char *name)
{
    uint32_t value = 2166136261u;

    while (*name)
        value = (value ^ (unsigned char)*name++) * 16777619u;
    return value;
}

uint32_t *ld_slot(const struct ld_dir *dir, const char *name)
{
    size_t at = ld_hash(name) & dir->mask;

    while (dir->table[at] && strcmp(dir->entries[dir->table[at] - 1]->name, name))
        at = (at + 1) & dir->mask;
    return &dir->table[at];
}

struct ld_entry *ld_find(const struct ld_dir *dir, const char *name)
{
    uint32_t at = dir->table ? *ld_slot(dir, name) : 0;

    return at ? dir->entries[at - 1] : NULL;
}

struct ld_entry *ld_follow(const struct ld_dir *dir, struct ld_entry *entry)
{
    for (int hops = 0; entry && entry->type == DT_LNK && hops < HOPS; hops++) {
        if (!entry->target || strchr(entry->target, '/') || !strcmp(entry->target, ".") || !strcmp(entry->target, ".."))
            return NULL;
        entry = ld_find(dir, entry->target);
    }
    return entry && entry->type == DT_REG ? entry : NULL;
}

bool ld_trusted(const struct ld_walk *walk)
{
    return walk->dir->state == walk->work->state;
}

/* Not in a directory of another mount, if the root has `one_mount`; and not when the work will fail, since a path which
 * it needs will be covered. */
bool ld_ours(const struct ld_walk *walk)
{
    if (walk->work->root->covers && walk->work->root->covers->met)
        return false;
    return !walk->dir->lent && (!walk->dir->foreign || !walk->work->root->one_mount);
}
