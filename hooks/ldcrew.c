/*
 * Reads the facts of all files, and the texts of all links, by several threads.
 *
 * This takes most of the time: on an overlay the first lookup of each name costs ten microseconds. Names come in
 * batches, one for each call of getdents64, so that the other threads work while the rest of a large directory is
 * listed.
 *
 * Files of the host that will be mounted later are read instead of their mount points (ld_source), so that a cache can
 * be written before the container is created.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>

/* SHARE: names for each thread at least, since starting a thread costs as much as reading some dozen files; PART: names
 * that a thread takes from a batch at once. */
enum { SHARE = 128, PART = 16 };

/* Bytes of a thread's stack, for the facts of one file and what reads them. By default it is 128 KiB in musl, as much as
   the longest soname alone, and in glibc the value of `ulimit -s`. */
enum { STACK = LD_SONAME_MAX + 256 * 1024 };

/* ---- one name ---- */

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
        return 0; /* if the target is needed, the kernel resolves it */
    entry->target = arena_text(arena, text, (size_t)length);
    return entry->target ? 0 : -ENOMEM;
}

static int look_at(const struct ld_work *work, struct arena *arena, const struct ld_dir *dir, struct ld_entry *entry)
{
    struct stat st;

    if (entry->type == DT_DIR)
        return 0;
    if (entry->type == DT_LNK)
        return fetch_target(dir, arena, entry);
    cleanup_fd int fd = root_entry(dir->fd, entry->name, dir->foreign, &st, &entry->injected);
    if (fd < 0)
        return fd == -EMFILE || fd == -ENFILE ? fd : 0;
    entry->injected |= ld_source_over(work, st.st_dev, st.st_ino) != NULL;
    return ld_look(work, arena, fd, &st, entry);
}

/* ---- the threads ---- */

/* Takes the next part of a batch, or waits for one. Returns the number of entries, 0: there will be no more. */
static size_t take_part(struct ld_crew *crew, const struct ld_dir **dir, struct ld_entry **entries)
{
    size_t count = 0;

    pthread_mutex_lock(&crew->lock);
    while (!crew->rc && !crew->first && !crew->complete)
        pthread_cond_wait(&crew->news, &crew->lock);
    struct ld_batch *batch = crew->rc ? NULL : crew->first;
    if (batch) {
        count = batch->count - batch->taken < PART ? batch->count - batch->taken : PART;
        *dir = batch->dir;
        *entries = batch->entries + batch->taken;
        batch->taken += count;
        crew->waiting -= count;
        if (batch->taken == batch->count)
            crew->first = batch->next;
    }
    pthread_mutex_unlock(&crew->lock);
    return count;
}

static void fail(struct ld_crew *crew, int rc)
{
    pthread_mutex_lock(&crew->lock);
    if (!crew->rc)
        crew->rc = rc;
    pthread_cond_broadcast(&crew->news);
    pthread_mutex_unlock(&crew->lock);
}

/*
 * Leaves the processor of the thread that started this one. The kernel often wakes both on the same, and notices the idle
 * one only after most of the work is done.
 */
static void move_away(int processor)
{
    cpu_set_t set;

    if (processor < 0 || sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) < 2)
        return;
    CPU_CLR((size_t)processor, &set);
    sched_setaffinity(0, sizeof set, &set); /* where it fails, the work takes longer */
}

static void *work_off(void *self)
{
    struct ld_worker *worker = self;
    struct ld_crew *crew = worker->crew;
    const struct ld_dir *dir;
    struct ld_entry *entries;

    for (size_t count; (count = take_part(crew, &dir, &entries));)
        for (size_t i = 0; i < count; i++) {
            int rc = look_at(crew->work, &worker->arena, dir, &entries[i]);
            if (!rc)
                rc = root_late(crew->work->root);
            if (rc) {
                fail(crew, rc);
                return NULL;
            }
        }
    return NULL;
}

static void *begin_work(void *self)
{
    struct ld_worker *worker = self;

    move_away(worker->starter);
    return work_off(self);
}

/* Starts a further thread; if that fails, which is no error, the running threads do its part. */
static void start(struct ld_crew *crew)
{
    struct ld_worker *worker = &crew->workers[crew->running];
    pthread_attr_t attributes;
    bool started = false;

    *worker = (struct ld_worker){.crew = crew, .arena.limit = crew->share, .starter = sched_getcpu()};
    if (!pthread_attr_init(&attributes)) {
        started = !pthread_attr_setstacksize(&attributes, STACK) &&
                  !pthread_create(&worker->thread, &attributes, begin_work, worker);
        pthread_attr_destroy(&attributes);
    }
    if (started)
        crew->running++;
    else
        crew->threads = crew->running;
}

/* As many threads as this process has processors, up to the number that still saves time. */
static unsigned default_threads(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 2 : CPU_COUNT(&set);

    return count < 1 ? 1 : count > LD_THREADS / 2 ? LD_THREADS / 2 : (unsigned)count;
}

void ld_crew_begin(struct ld_crew *crew, const struct ld_work *work, unsigned threads)
{
    *crew = (struct ld_crew){.work = work, .threads = threads ? threads : default_threads(), .running = 1};
    if (crew->threads > LD_THREADS)
        crew->threads = LD_THREADS;
    crew->share = arena_room(&work->arena) / (crew->threads + 1) + 1;
    crew->workers[0] = (struct ld_worker){.crew = crew, .arena.limit = crew->share};
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->news, NULL);
}

void ld_crew_add(struct ld_crew *crew, struct ld_batch *batch)
{
    pthread_mutex_lock(&crew->lock);
    if (crew->first)
        crew->last->next = batch;
    else
        crew->first = batch;
    crew->last = batch;
    crew->waiting += batch->count;
    size_t waiting = crew->waiting;
    pthread_cond_broadcast(&crew->news);
    pthread_mutex_unlock(&crew->lock);
    while (crew->running < crew->threads && waiting >= SHARE * (size_t)crew->running)
        start(crew);
}

int ld_crew_end(struct ld_crew *crew, struct arena *into, int rc)
{
    if (rc)
        fail(crew, rc);
    pthread_mutex_lock(&crew->lock);
    crew->complete = true;
    pthread_cond_broadcast(&crew->news);
    pthread_mutex_unlock(&crew->lock);
    work_off(&crew->workers[0]);
    for (unsigned i = 0; i < crew->running; i++) {
        if (i)
            pthread_join(crew->workers[i].thread, NULL);
        arena_merge(into, &crew->workers[i].arena);
    }
    pthread_mutex_destroy(&crew->lock);
    pthread_cond_destroy(&crew->news);
    return crew->rc;
}
