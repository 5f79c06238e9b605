/*
 * The second half of the search: walks the directories in ldconfig's order, updates soname links, collects the entries.
 *
 * A single thread does this, from the tables of ldlist.c: most links of a library directory lead to a file beside them,
 * so neither they nor the soname links need to be looked up. Where a table is not sufficient there are system calls.
 *
 * Our own changes are entered into the table of the current directory. A soname with a slash changes another directory;
 * after that no older listing is valid (`state`).
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct ld_aout {
    struct ld_aout *next;
    dev_t dev;
    ino_t ino;
    const char *soname;
};

/* ---- one directory, in ldconfig's order ---- */

static int queue_subdirectory(struct ld_walk *walk, const char *path, const struct stat *st)
{
    struct ld_dir dir = {.path = path, .type = walk->dir->type, .dev = st->st_dev, .ino = st->st_ino};
    int rc = ld_conf_queue(walk->work, &dir);

    return rc < 0 ? rc : 0;
}

static void remove_stale(struct ld_walk *walk, struct ld_entry *entry)
{
    if (walk->work->keep_links || !ld_ours(walk) || !strstr(entry->name, ".so.") ||
        unlinkat(walk->dir->fd, entry->name, 0))
        return;
    walk->work->links_removed++;
    entry->type = 0;
}

/*
 * Opens the host's file for a link into a directory that is not mounted yet; -ENOENT when the link's text does not lead
 * there. With covers a link that leads there has been refused already, by its resolved path and not only by its text.
 */
static int open_lent(const struct ld_work *work, const struct ld_dir *dir, const struct ld_entry *entry,
                     struct stat *st)
{
    char path[4096];
    const char *below;

    if (!work->source_count || work->root->covers || !entry->target ||
        !ld_lexical(dir->path, entry->target, path, sizeof path))
        return -ENOENT;
    const struct ld_source *source = ld_source_above(work, path, &below);
    if (!source || !*below)
        return -ENOENT;
    char *name = strrchr(path, '/') + 1;
    name[-1] = 0;
    cleanup_fd int folder = ld_source_open(source, name > below ? below : "", O_PATH | O_DIRECTORY);
    return folder < 0 ? folder : root_entry(folder, name, true, st, NULL);
}

/* A link that leads out of its directory, or nowhere: the kernel follows it, and the file is examined. */
static int look_behind(struct ld_walk *walk, struct ld_entry *entry, struct ld_entry *what)
{
    struct stat st = {0};
    const char *path = arena_join(&walk->work->arena, walk->dir->path, entry->name);

    if (!path)
        return -ENOMEM;
    if (walk->dir->lent) { /* it can be followed only when the directory is mounted */
        cover_note(walk->work->root, path);
        return 0;
    }
    cleanup_fd int fd = root_regular(walk->work->root, path, &st);
    if (fd >= 0)
        return ld_look(walk->work, &walk->work->arena, fd, &st, what);
    if (ld_is_fatal(fd))
        return fd;
    cleanup_fd int lent = st.st_mode ? -ENOENT : open_lent(walk->work, walk->dir, entry, &st);
    if (lent >= 0)
        return ld_look(walk->work, &walk->work->arena, lent, &st, what);
    if (!st.st_mode)
        remove_stale(walk, entry);
    else if (S_ISDIR(st.st_mode) && !walk->dir->hwcaps && ld_hwcap_bit(walk->work->profile, entry->name))
        return queue_subdirectory(walk, path, &st);
    return 0;
}

/* a.out files have no soname; it is made from the first name of the inode in this run. */
static const char *aout_soname(struct ld_work *work, const struct ld_entry *what, const char *name)
{
    for (struct ld_aout *known = work->aouts; known; known = known->next)
        if (known->dev == what->dev && known->ino == what->ino)
            return known->soname;
    struct ld_aout *fresh = arena_get(&work->arena, sizeof *fresh);
    char *soname = fresh ? arena_text(&work->arena, name, strlen(name)) : NULL;
    if (!soname)
        return NULL;
    char *major = strstr(soname, ".so.");
    if (major)
        major[4 + strcspn(major + 4, ".")] = 0;
    *fresh = (struct ld_aout){work->aouts, what->dev, what->ino, soname};
    work->aouts = fresh;
    return soname;
}

/* A link is a link in the cache, too, when it has the soname's name, or is the `libx.so` that the linker uses. */
static bool stays_link(const char *name, const char *soname)
{
    size_t length = strlen(name);

    return !strcmp(name, soname) ||
           (length >= 3 && !strcmp(name + length - 3, ".so") && !strncmp(name, soname, length));
}

/* The types that may replace each other under one soname, glibc <= 2.36. */
static void mix_types(struct ld_lib *known, int flags)
{
    bool known_libc = known->flags == 2 || known->flags == LD_TYPE_LIBC6, libc = flags == 2 || flags == LD_TYPE_LIBC6;

    if ((known->flags == LD_TYPE_ELF && libc) || (known_libc && flags == LD_TYPE_ELF))
        known->flags = flags;
}

static void add_lib(struct ld_walk *walk, const struct ld_lib *lib)
{
    const struct ld_profile *profile = walk->work->profile;
    size_t at = ld_hash(lib->soname) & walk->mask;

    while (walk->table[at] && strcmp(walk->libs[walk->table[at] - 1].soname, lib->soname))
        at = (at + 1) & walk->mask;
    if (!walk->table[at]) {
        walk->libs[walk->count] = *lib;
        walk->table[at] = (uint32_t)++walk->count;
        return;
    }
    struct ld_lib *known = &walk->libs[walk->table[at] - 1];
    bool better = !lib->link && known->link;
    if (lib->link == known->link)
        better = ld_compare(profile->arch, known->entry->name, lib->entry->name) < 0;
    if (!better)
        return;
    if (profile->old)
        mix_types(known, lib->flags);
    known->entry = lib->entry;
    known->link = lib->link;
    known->isa = lib->isa;
}

static int take(struct ld_walk *walk, struct ld_entry *entry, const struct ld_entry *what)
{
    struct ld_lib lib = {.entry = entry, .flags = what->flags, .isa = what->isa, .link = entry->type == DT_LNK};

    lib.soname = what->aout ? aout_soname(walk->work, what, entry->name) : what->soname ? what->soname : entry->name;
    if (!lib.soname)
        return -ENOMEM;
    if (lib.link && !stays_link(entry->name, lib.soname))
        lib.link = false;
    if (lib.link)
        lib.soname = entry->name;
    if (walk->dir->type && lib.flags == LD_TYPE_ELF)
        lib.flags = walk->dir->type;
    add_lib(walk, &lib);
    return 0;
}

static int visit(struct ld_walk *walk, struct ld_entry *entry)
{
    struct ld_entry elsewhere = {0};
    struct ld_entry *what = entry;

    if (entry->type == DT_DIR) {
        struct stat st;
        const char *path = arena_join(&walk->work->arena, walk->dir->path, entry->name);
        if (!path)
            return -ENOMEM;
        if (walk->dir->lent)
            return ld_conf_lent(walk->work, walk->dir, path, entry->name, NULL);
        return root_lstat(walk->work->root, path, &st) ? 0 : queue_subdirectory(walk, path, &st);
    }
    if (entry->type == DT_LNK) {
        what = ld_trusted(walk) ? ld_follow(walk->dir, entry) : NULL;
        if (!what) {
            int rc = look_behind(walk, entry, &elsewhere);
            if (rc)
                return rc;
            what = &elsewhere;
        }
    }
    return entry->type && what->library ? take(walk, entry, what) : 0;
}

/* ---- entries ---- */

/* The sum of the bits of the path's last components, glibc <= 2.36. */
static uint64_t path_bits(const struct ld_profile *profile, const char *path)
{
    char part[32];
    uint64_t bits = 0;

    for (const char *end = path + strlen(path);;) {
        const char *slash = memrchr(path, '/', (size_t)(end - path));
        if (!slash || (size_t)(end - slash - 1) >= sizeof part)
            return bits;
        size_t length = (size_t)(end - slash - 1);
        memcpy(part, slash + 1, length);
        part[length] = 0;
        uint64_t bit = ld_hwcap_bit(profile, part);
        if (!bit)
            return bits;
        bits += bit;
        end = slash;
    }
}

static int add_item(struct ld_walk *walk, const struct ld_lib *lib, const char *file)
{
    struct ld_work *work = walk->work;
    const char *value = arena_join(&work->arena, walk->dir->path, file);

    work->items = arena_grow(&work->arena, work->items, work->item_count, &work->item_room, sizeof *work->items);
    if (!value || !work->items)
        return -ENOMEM;
    struct ld_item *item = &work->items[work->item_count++];
    *item = (struct ld_item){lib->soname, value, lib->flags, lib->isa, 0, walk->dir->hwcaps};
    if (!item->hwcaps)
        item->hwcap = path_bits(work->profile, walk->dir->path);
    return 0;
}

/* From the latest soname to the first: links, then the cache's entries. */
static int finish(struct ld_walk *walk)
{
    for (size_t i = walk->count; i-- > 0;) {
        struct ld_lib *lib = &walk->libs[i];
        int rc = i % 16 ? 0 : root_late(walk->work->root);
        if (!rc && !walk->dir->hwcaps && !lib->link && !walk->work->keep_links)
            rc = ld_maintain(walk, lib);
        if (rc < 0)
            return rc;
        rc = add_item(walk, lib, walk->dir->hwcaps || rc ? lib->entry->name : lib->soname);
        if (rc)
            return rc;
    }
    return 0;
}

static int walk_dir(struct ld_work *work, struct ld_dir *dir)
{
    struct ld_walk walk = {.work = work, .dir = dir, .mask = 15};

    while (walk.mask < 2 * dir->scanned)
        walk.mask = 2 * walk.mask + 1;
    walk.libs = arena_get(&work->arena, (dir->scanned + 1) * sizeof *walk.libs);
    walk.table = arena_get(&work->arena, (walk.mask + 1) * sizeof *walk.table);
    if (!walk.libs || !walk.table)
        return -ENOMEM;
    int rc = 0;
    for (size_t i = 0; i < dir->scanned; i++)
        dir->injected |= dir->entries[i]->injected;
    for (size_t i = 0; !rc && i < dir->scanned; i++) {
        /* an image can have names that collide in a table, which costs the square of their number */
        rc = i % 16 ? 0 : root_late(work->root);
        if (!rc)
            rc = visit(&walk, dir->entries[i]);
    }
    return rc ? rc : finish(&walk);
}

int ld_scan(struct ld_work *work, unsigned threads)
{
    int rc = ld_prepare(work, 0, work->dir_count, threads);

    for (size_t i = 0; !rc && i < work->dir_count; i++) {
        struct ld_dir *dir = work->dirs[i];
        if (!dir->listed || dir->state != work->state)
            rc = ld_prepare(work, i, i + 1, threads);
        if (!rc)
            rc = walk_dir(work, dir);
    }
    for (size_t i = 0; i < work->dir_count; i++)
        close_fd(&work->dirs[i]->fd);
    return rc;
}
