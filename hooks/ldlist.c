/*
 * The first half of the search: lists the directories, and gives their names to the threads that read the files
 * (ldcrew.c) while the rest is still listed. The order does not matter here, because ldconfig changes links only; steps
 * that depend on the order are in ldscan.c.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

enum { NAMES = 65536 };

/* ---- names ---- */

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool ends(const char *text, size_t length, const char *with)
{
    size_t size = strlen(with);

    return length >= size && !memcmp(text + length - size, with, size);
}

static bool library_name(const char *name)
{
    if ((begins(name, "lib") || begins(name, "ld-")) && strstr(name, ".so"))
        return true;
    return begins(name, "ld.so.") || begins(name, "ld64.so.");
}

/* Leftovers of prelink, RPM and dpkg. */
static bool temporary_name(const struct ld_profile *profile, const char *name)
{
    static const char prelink[] = ".#prelink#.";
    size_t length = strlen(name);

    if (ends(name, length, ".#prelink#"))
        return true;
    if (length >= 17 && !memcmp(name + length - 17, prelink, sizeof prelink - 1))
        return true;
    return !profile->old && (strchr(name, ';') || ends(name, length, ".dpkg-new") || ends(name, length, ".dpkg-tmp"));
}

bool ld_wanted(const struct ld_work *work, const struct ld_dir *dir, const char *name, uint8_t type)
{
    bool subdirectory = !dir->hwcaps && ld_hwcap_bit(work->profile, name);

    if (type == DT_DIR && !subdirectory)
        return false;
    if (type != DT_REG && type != DT_LNK && type != DT_DIR)
        return false;
    if (!library_name(name) && (type == DT_REG || (!dir->hwcaps && !subdirectory)))
        return false;
    return !temporary_name(work->profile, name);
}

/* ---- listing ---- */

static uint8_t type_of(const struct ld_dir *dir, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    return fstatat(dir->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ? DT_UNKNOWN : IFTODT(st.st_mode);
}

static int add_name(struct ld_work *work, struct ld_dir *dir, struct ld_batch *batch, const char *name, uint8_t type)
{
    if (++work->names > NAMES)
        return -E2BIG;
    dir->entries = arena_grow(&work->arena, dir->entries, dir->count, &dir->room, sizeof *dir->entries);
    char *copy = dir->entries ? arena_text(&work->arena, name, strlen(name)) : NULL;
    if (!copy)
        return -ENOMEM;
    struct ld_entry *entry = &batch->entries[batch->count++];
    *entry = (struct ld_entry){.name = copy, .type = type};
    dir->entries[dir->count++] = entry;
    return 0;
}

/* Takes the names of a call of getdents64, and gives them to the threads. */
static int read_names(struct ld_work *work, struct ld_dir *dir, const char *buffer, long size, struct ld_crew *crew)
{
    size_t most = 0;
    struct ld_batch *batch = arena_get(&work->arena, sizeof *batch);
    const struct dirent *entry;
    int rc = 0;

    for (const char *at = buffer; at < buffer + size; at += entry->d_reclen, most++)
        entry = (const struct dirent *)(const void *)at;
    struct ld_entry *entries = batch ? arena_get(&work->arena, most * sizeof *entries) : NULL;
    if (!entries)
        return -ENOMEM;
    *batch = (struct ld_batch){.dir = dir, .entries = entries};
    for (const char *at = buffer; !rc && at < buffer + size; at += entry->d_reclen) {
        entry = (const struct dirent *)(const void *)at;
        uint8_t type = type_of(dir, entry);
        if (ld_wanted(work, dir, entry->d_name, type))
            rc = add_name(work, dir, batch, entry->d_name, type);
    }
    if (!rc && batch->count)
        ld_crew_add(crew, batch);
    return rc;
}

static int read_directory(struct ld_work *work, struct ld_dir *dir, struct ld_crew *crew)
{
    _Alignas(struct dirent) char buffer[32768];

    for (;;) {
        long got = syscall(SYS_getdents64, dir->fd, buffer, sizeof buffer);
        int rc = got < 0 ? -errno : root_late(work->root);
        if (!rc && got)
            rc = read_names(work, dir, buffer, got, crew);
        if (rc || !got)
            return rc;
    }
}

/* The table has room for a link beside each entry, so that it never moves while there are pointers to entries. */
static int make_table(struct ld_work *work, struct ld_dir *dir)
{
    size_t size = 16;

    while (size < 4 * dir->count + 4)
        size *= 2;
    dir->table = arena_get(&work->arena, size * sizeof *dir->table);
    if (!dir->table)
        return -ENOMEM;
    dir->mask = size - 1;
    dir->scanned = dir->count;
    for (size_t i = 0; i < dir->count; i++) {
        if (i % 64 == 0 && root_late(work->root))
            return -ETIMEDOUT;
        *ld_slot(dir, dir->entries[i]->name) = (uint32_t)i + 1;
    }
    return 0;
}

static int open_dir(const struct ld_work *work, struct ld_dir *dir)
{
    if (!dir->lent)
        return root_directory(work->root, dir->path, &dir->foreign);
    dir->foreign = true;
    return ld_source_open(dir->lent, dir->below, O_RDONLY | O_DIRECTORY);
}

struct inside {
    const struct ld_work *work;
    const struct ld_dir *dir;
};

/* Whether a future mount in a directory matters: it is a library, or a subdirectory that is searched. */
static bool matters(const void *context, const char *way)
{
    const struct inside *inside = context;
    char name[256];
    size_t length = strcspn(way, "/");

    if (length >= sizeof name)
        return false;
    memcpy(name, way, length);
    name[length] = 0;
    if (!strcmp(name, "glibc-hwcaps") || ld_hwcap_bit(inside->work->profile, name))
        return true;
    return !way[length] && ld_wanted(inside->work, inside->dir, name, DT_REG);
}

static int list(struct ld_work *work, struct ld_dir *dir, struct ld_crew *crew)
{
    const struct inside inside = {work, dir};
    int old = dir->fd;

    cover_check_inside(work->root, dir->path, matters, &inside); /* the work goes on, and fails at its end */

    close_fd(&old);
    dir->fd = open_dir(work, dir);
    dir->listed = true;
    dir->state = work->state;
    dir->entries = NULL;
    dir->count = dir->room = 0;
    if (dir->fd < 0) /* a file instead of a directory, or removed meanwhile: as if it were empty */
        return dir->fd == -ETIMEDOUT || dir->fd == -EMFILE || dir->fd == -ENFILE ? dir->fd : make_table(work, dir);
    int rc = read_directory(work, dir, crew);
    return rc == -ENOENT ? make_table(work, dir) : rc ? rc : make_table(work, dir);
}

int ld_prepare(struct ld_work *work, size_t from, size_t to, unsigned threads)
{
    struct ld_crew crew;
    int rc = 0;

    ld_crew_begin(&crew, work, threads);
    for (size_t i = from; !rc && i < to; i++)
        rc = list(work, work->dirs[i], &crew);
    return ld_crew_end(&crew, &work->arena, rc);
}
