/*
 * The first half of the search: list the directories, and by several threads look into every file and fetch every link's
 * text. This is where the time goes: on an overlay the first lookup of each name costs ten microseconds. Nothing here
 * depends on an order, because ldconfig changes links only; what does is in ldscan.c.
 *
 * Files of the host that will be mounted later are read instead of their mount points (ld_source), so that a cache can
 * be made before the container is.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

enum { NAMES = 65536, THREADS = 8, FEW = 24 };

/* Bytes of a thread's stack, for the facts of one file and what reads them. By default it is 128 KiB in musl, as much as
   the longest soname alone, and in glibc the value of `ulimit -s`. */
enum { STACK = LD_SONAME_MAX + 256 * 1024 };

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

static int add_name(struct ld_work *work, struct ld_dir *dir, const char *name, uint8_t type)
{
    if (++work->names > NAMES)
        return -E2BIG;
    dir->entries = arena_grow(&work->arena, dir->entries, dir->count, &dir->room, sizeof *dir->entries);
    char *copy = dir->entries ? arena_text(&work->arena, name, strlen(name)) : NULL;
    if (!copy)
        return -ENOMEM;
    dir->entries[dir->count++] = (struct ld_entry){.name = copy, .type = type};
    return 0;
}

static uint8_t type_of(const struct ld_dir *dir, const struct dirent64 *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    return fstatat(dir->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ? DT_UNKNOWN : IFTODT(st.st_mode);
}

static int read_names(struct ld_work *work, struct ld_dir *dir)
{
    _Alignas(struct dirent64) char buffer[32768];

    for (;;) {
        long got = syscall(SYS_getdents64, dir->fd, buffer, sizeof buffer);
        int rc = got < 0 ? -errno : root_late(work->root);
        if (rc || !got)
            return rc;
        for (char *at = buffer; !rc && at < buffer + got;) {
            struct dirent64 *entry = (struct dirent64 *)(void *)at;
            at += entry->d_reclen;
            uint8_t type = type_of(dir, entry);
            if (ld_wanted(work, dir, entry->d_name, type))
                rc = add_name(work, dir, entry->d_name, type);
        }
        if (rc)
            return rc;
    }
}

/* The table has room for a link beside each entry, so that it never moves while entries are pointed at. */
static int make_table(struct ld_work *work, struct ld_dir *dir)
{
    size_t size = 16;

    while (size < 4 * dir->count + 4)
        size *= 2;
    dir->room = 2 * dir->count + 1;
    struct ld_entry *entries = arena_get(&work->arena, dir->room * sizeof *entries);
    dir->table = arena_get(&work->arena, size * sizeof *dir->table);
    if (!entries || !dir->table)
        return -ENOMEM;
    if (dir->count)
        memcpy(entries, dir->entries, dir->count * sizeof *entries);
    dir->entries = entries;
    dir->mask = size - 1;
    dir->scanned = dir->count;
    for (size_t i = 0; i < dir->count; i++) {
        if (i % 64 == 0 && root_late(work->root))
            return -ETIMEDOUT;
        *ld_slot(dir, dir->entries[i].name) = (uint32_t)i + 1;
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

/* Whether something that will be mounted in a directory is of interest: a library, or a subdirectory that is searched. */
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

static int list(struct ld_work *work, struct ld_dir *dir)
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
    if (dir->fd < 0) /* a file instead of a directory, or gone meanwhile: as if it were empty */
        return dir->fd == -ETIMEDOUT || dir->fd == -EMFILE || dir->fd == -ENFILE ? dir->fd : make_table(work, dir);
    int rc = read_names(work, dir);
    return rc == -ENOENT ? make_table(work, dir) : rc ? rc : make_table(work, dir);
}

/* ---- looking into files, by several threads ---- */

struct job {
    const struct ld_dir *dir;
    struct ld_entry *entry;
};

struct crew {
    const struct ld_work *work;
    struct job *jobs;
    size_t count;
    atomic_size_t next;
    atomic_int rc;
};

struct worker {
    struct crew *crew;
    struct arena arena;
    pthread_t thread;
    bool running;
};

int ld_look(const struct ld_work *work, struct arena *arena, int fd, const struct stat *st, struct ld_entry *entry)
{
    const struct ld_source *source = ld_source_over(work, st->st_dev, st->st_ino);
    cleanup_fd int lent = source ? open(source->source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    struct elf_facts facts;
    struct stat lent_st;

    if (source) {
        if (lent < 0 || fstat(lent, &lent_st) || !S_ISREG(lent_st.st_mode))
            return 0;
        fd = lent;
        st = &lent_st;
    }
    entry->library = elf_read(fd, (uint64_t)st->st_size, work->profile, &facts);
    if (!entry->library)
        return 0;
    entry->aout = facts.aout;
    entry->flags = facts.flags;
    entry->isa = (uint8_t)facts.isa;
    entry->dev = st->st_dev;
    entry->ino = st->st_ino;
    if (facts.named)
        entry->soname = arena_text(arena, facts.soname, strlen(facts.soname));
    return facts.named && !entry->soname ? -ENOMEM : 0;
}

static int fetch_target(const struct ld_dir *dir, struct arena *arena, struct ld_entry *entry)
{
    char text[4096];
    ssize_t length = readlinkat(dir->fd, entry->name, text, sizeof text);

    if (length <= 0 || (size_t)length >= sizeof text)
        return 0; /* where the target is needed the kernel is asked */
    entry->target = arena_text(arena, text, (size_t)length);
    return entry->target ? 0 : -ENOMEM;
}

static int do_job(const struct ld_work *work, struct arena *arena, const struct job *job)
{
    struct stat st;

    if (job->entry->type == DT_LNK)
        return fetch_target(job->dir, arena, job->entry);
    cleanup_fd int fd = root_entry(job->dir->fd, job->entry->name, job->dir->foreign, &st, &job->entry->injected);
    if (fd < 0)
        return fd == -EMFILE || fd == -ENFILE ? fd : 0;
    job->entry->injected |= ld_source_over(work, st.st_dev, st.st_ino) != NULL;
    return ld_look(work, arena, fd, &st, job->entry);
}

static void *work_off(void *self)
{
    struct worker *worker = self;
    struct crew *crew = worker->crew;

    while (!atomic_load(&crew->rc)) {
        size_t at = atomic_fetch_add(&crew->next, 1);
        if (at >= crew->count)
            break;
        int rc = do_job(crew->work, &worker->arena, &crew->jobs[at]);
        if (!rc)
            rc = root_late(crew->work->root);
        if (rc)
            atomic_store(&crew->rc, rc);
    }
    return NULL;
}

/* False where a thread cannot be had, which is no error: those that run do its part */
static bool start(struct worker *worker)
{
    pthread_attr_t attributes;

    if (pthread_attr_init(&attributes))
        return false;
    bool started = !pthread_attr_setstacksize(&attributes, STACK) &&
                   !pthread_create(&worker->thread, &attributes, work_off, worker);
    pthread_attr_destroy(&attributes);
    return started;
}

static int run(struct ld_work *work, struct job *jobs, size_t count, unsigned threads)
{
    struct crew crew = {.work = work, .jobs = jobs, .count = count};
    struct worker workers[THREADS] = {0};
    size_t room = arena_room(&work->arena);

    if (count < FEW || threads < 1)
        threads = 1;
    if (threads > THREADS)
        threads = THREADS;
    for (unsigned i = 0; i < threads; i++) {
        workers[i].crew = &crew;
        workers[i].arena.limit = room / threads + 1;
        workers[i].running = i && start(&workers[i]);
    }
    work_off(&workers[0]);
    for (unsigned i = 0; i < threads; i++) {
        if (workers[i].running)
            pthread_join(workers[i].thread, NULL);
        arena_merge(&work->arena, &workers[i].arena);
    }
    return atomic_load(&crew.rc);
}

int ld_prepare(struct ld_work *work, size_t from, size_t to, unsigned threads)
{
    size_t count = 0;

    for (size_t i = from; i < to; i++) {
        int rc = list(work, work->dirs[i]);
        if (rc)
            return rc;
        count += work->dirs[i]->count;
    }
    struct job *jobs = arena_get(&work->arena, count * sizeof *jobs);
    if (!jobs)
        return -ENOMEM;
    count = 0;
    for (size_t i = from; i < to; i++)
        for (size_t j = 0; j < work->dirs[i]->count; j++)
            if (work->dirs[i]->entries[j].type != DT_DIR)
                jobs[count++] = (struct job){work->dirs[i], &work->dirs[i]->entries[j]};
    return run(work, jobs, count, threads);
}
