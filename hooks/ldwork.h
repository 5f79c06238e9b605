/*
 * Declarations that the files of the ld.so.cache share; ldcache.c explains how they work together.
 *
 * Results are 0 or a negative errno value where no other is given: -ENOMEM, -E2BIG (the root exceeds a limit),
 * -ETIMEDOUT, -EMFILE. A fault of a file or directory of the image is no error: it is ignored as if it did not exist.
 */
#pragma once

#include "arena.h"
#include "elffile.h"
#include "fault.h"
#include "ldcache.h"
#include "root.h"

#include <errno.h>
#include <pthread.h>

/* --- ldprofile.c: which ldconfig is imitated -------------------------------------------------------------------------- */

#define LD_EXTENSION_MAGIC 0xeaa42174u
#define LD_NEWEST "ldconfig (GNU libc) stable release version 2.41"

enum ld_family { LD_X86, LD_ARM, LD_POWER, LD_S390, LD_RISCV, LD_LOONG };

struct ld_arch {
    const char *triplet;
    uint16_t machine; /* e_machine of its libc */
    uint8_t class;    /* 1: 32 bit, 2: 64 bit */
    enum ld_family family;
    bool unsigned_char;     /* ldconfig compares names as char */
    const char *folders[9]; /* built-in directories of an unpatched glibc */
};

struct ld_profile {
    const struct ld_arch *arch;
    bool old;         /* glibc <= 2.36: hwcap subdirectories, `dir=type` lines, a type found by need */
    bool debian;      /* Debian's built-in directories, and the dynamic loader's link is left alone */
    bool has_version; /* the root has a libc, and its version is known */
    char generator[160];
};

/* Finds the profile of a root. It cannot fail: without any information the newest rules are used. */
void ld_profile_find(const struct root *root, struct ld_profile *profile);

/* Takes the rules from a generator text of LENGTH bytes. False: it is not such a text. */
bool ld_profile_name(struct ld_profile *profile, const char *generator, size_t length);

/*
 * glibc's comparison of library names: numbers by value, a number before a letter, letters as that machine's char.
 * Negative, 0 or positive like strcmp.
 */
int ld_compare(const struct ld_arch *arch, const char *first, const char *second);

/* The bit of a subdirectory for a part of a CPU family, glibc <= 2.36; 0: not such a name. */
uint64_t ld_hwcap_bit(const struct ld_profile *profile, const char *name);

/* --- the common data -------------------------------------------------------------------------------------------------- */

struct ld_entry {
    const char *name;
    const char *target; /* text of a link */
    const char *soname; /* NULL: the file has none */
    int flags;
    uint8_t isa;
    uint8_t type; /* DT_REG, DT_LNK, DT_DIR; 0: removed */
    bool library, aout;
    bool injected; /* a mount lies, or will lie, over it */
    dev_t dev;     /* identity, known for a.out files only */
    ino_t ino;
};

struct ld_dir {
    const char *path; /* in its first spelling, which the cache shows */
    dev_t dev;
    ino_t ino;
    const char *hwcaps; /* name of a glibc-hwcaps subdirectory, or NULL */
    int type;           /* libc type demanded by a `dir=type` line, 0: any */
    bool injected;      /* a hook's folder, or files in it are mounted: it has a driver's libraries */
    /* filled by ldlist.c */
    int fd;
    const struct ld_source *lent; /* a lent directory of the host, not mounted yet: this directory, or one above it */
    const char *below;
    bool listed, foreign;
    unsigned state;            /* the tree's state that the listing shows */
    struct ld_entry **entries; /* in readdir order */
    size_t count, scanned, room;
    uint32_t *table; /* names to entries */
    size_t mask;
};

/* One line of the cache. */
struct ld_item {
    const char *key, *value;
    int flags;
    unsigned isa;
    uint64_t hwcap;
    const char *hwcaps;
};

enum { LD_COMPAT, LD_FOLDERS, LD_DROP_INS };

struct ld_drop_in {
    dev_t dev;
    ino_t ino;
    bool valid; /* it exists, with the right content */
    bool read;  /* the root's configuration includes it */
};

struct ld_work {
    const struct root *root;
    const struct ld_profile *profile;
    struct arena arena;
    bool keep_links;    /* as in struct ld_options */
    bool replace_empty; /* likewise */
    const struct ld_source *sources;
    size_t source_count;
    struct ld_dir **dirs;
    size_t dir_count, dir_room;
    const char **hwcaps; /* every glibc-hwcaps name, used or not */
    size_t hwcaps_count, hwcaps_room;
    struct ld_item *items;
    size_t item_count, item_room;
    unsigned files; /* configuration files read */
    struct ld_drop_in drop_ins[LD_DROP_INS];
    bool injecting;      /* the directories that are queued now are folders of the hook */
    struct fault remark; /* the first fault that did not stop the work, but is reported */
    size_t names;        /* directory entries kept */
    unsigned state;      /* counts changes that a listing cannot show */
    unsigned links_made, links_removed, links_refused;
    struct ld_aout *aouts;
};

/* Whether an error ends the work: its cause is in this process and not in the tree. */
static inline bool ld_is_fatal(int error)
{
    return error == -ETIMEDOUT || error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

/* --- ldlent.c: files to be mounted ------------------------------------------------------------------------------------- */

/*
 * Writes the path to which a link in FOLDER leads, by its text alone. target: the link's text; NULL: FOLDER itself.
 * False: that does not fit.
 */
bool ld_lexical(const char *folder, const char *target, char *into, size_t room);

/* The source that will be mounted over an inode of the root, NULL: none. */
const struct ld_source *ld_source_over(const struct ld_work *work, dev_t dev, ino_t ino);

/* The nearest source that will be mounted at a normal path or above it, NULL: none. *below is the rest of the path. */
const struct ld_source *ld_source_above(const struct ld_work *work, const char *path, const char **below);

/* Opens a source, or, if BELOW is not empty, this path below it. Returns a descriptor, or errors of openat2. */
int ld_source_open(const struct ld_source *source, const char *below, int flags);

/* --- ldglob.c: patterns of include lines -------------------------------------------------------------------------------- */

struct ld_matches {
    struct ld_work *work;
    const char **paths;
    size_t count, room;
};

/* Finds the files of the root that a pattern with an absolute path names, in the order of their paths. */
int ld_expand(struct ld_matches *matches, const char *pattern);

/* --- ldconf.c: the directories, in their order -------------------------------------------------------------------------- */

/* Reads a configuration file of the root and queues its directories. */
int ld_conf_read(struct ld_work *work, const char *path);

/* Empties the queue; the directories of drop-ins that were read will be queued again. */
void ld_conf_restart(struct ld_work *work);

/* Queues the directories that are built into the loader. */
int ld_conf_builtin(struct ld_work *work);

/* Queues a directory as a line of the configuration names it. type: as in struct ld_dir. */
int ld_conf_folder(struct ld_work *work, const char *path, int type);

/* Puts a copy of a directory at the end of the list, unless the list has its inode. Returns 1 when it was new, else 0. */
int ld_conf_queue(struct ld_work *work, const struct ld_dir *dir);

/* Queues a directory below a lent directory, if the host has it. name: its path from there. hwcaps: as in ld_dir. */
int ld_conf_lent(struct ld_work *work, const struct ld_dir *parent, const char *path, const char *name,
                 const char *hwcaps);

/* --- ldlist.c: the contents of the directories --------------------------------------------------------------------------- */

/*
 * Lists the directories FROM..TO-1 of the work's list and reads their files. threads: their number; 0: the number of
 * processors, up to half of LD_THREADS.
 */
int ld_prepare(struct ld_work *work, size_t from, size_t to, unsigned threads);

/* Whether ldconfig examines an entry of this name and type (DT_REG...) in this directory. */
bool ld_wanted(const struct ld_work *work, const struct ld_dir *dir, const char *name, uint8_t type);

/* --- ldcrew.c: reading files, by several threads ------------------------------------------------------------------------ */

/* Examines an open regular file: fills in ENTRY, with texts from the arena. */
int ld_look(const struct ld_work *work, struct arena *arena, int fd, const struct stat *st, struct ld_entry *entry);

enum { LD_THREADS = 8 };

struct ld_batch { /* names of a directory whose files are to be read */
    struct ld_batch *next;
    const struct ld_dir *dir;
    struct ld_entry *entries;
    size_t count, taken;
};

struct ld_worker {
    struct ld_crew *crew;
    struct arena arena;
    pthread_t thread;
    int starter; /* processor of the thread that started this one, -1: unknown */
};

struct ld_crew {
    const struct ld_work *work;
    struct ld_worker workers[LD_THREADS]; /* the first is the thread that lists */
    unsigned threads, running;
    size_t share; /* limit of a thread's arena */
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct ld_batch *first, *last; /* batches that no thread has taken yet */
    size_t waiting;                /* names in these */
    bool complete;                 /* no batch will be added */
    int rc;                        /* the first error */
};

/* Prepares for batches. threads: as in ld_prepare. A thread is started only when there is enough work. */
void ld_crew_begin(struct ld_crew *crew, const struct ld_work *work, unsigned threads);

/* Adds a batch, which must live until the end. */
void ld_crew_add(struct ld_crew *crew, struct ld_batch *batch);

/*
 * Works until all batches are done, and ends the threads. into: gets the memory of the results.
 * rc: an error of the caller, after which the remaining batches are skipped. Returns the first error.
 */
int ld_crew_end(struct ld_crew *crew, struct arena *into, int rc);

/* --- lddir.c: a directory and its table ------------------------------------------------------------------------------ */

struct ld_lib {
    const char *soname;
    struct ld_entry *entry;
    int flags;
    unsigned isa;
    bool link;
};

struct ld_walk {
    struct ld_work *work;
    struct ld_dir *dir;
    struct ld_lib *libs; /* in the order of first appearance */
    size_t count;
    uint32_t *table; /* sonames to libs */
    size_t mask;
};

/* The entry of a directory with this name, NULL: none. */
struct ld_entry *ld_find(const struct ld_dir *dir, const char *name);

/* The slot of a name in the table of a directory: it has the number of an entry, from 1 on, or 0. */
uint32_t *ld_slot(const struct ld_dir *dir, const char *name);

/* FNV-1a of 32 bits. */
uint32_t ld_hash(const char *name);

/* The file that an entry leads to by links within its directory, NULL: a system call is needed. */
struct ld_entry *ld_follow(const struct ld_dir *dir, struct ld_entry *entry);

/* Whether the directory's table is still correct. */
bool ld_trusted(const struct ld_walk *walk);

/* Whether links of the directory may be changed. */
bool ld_ours(const struct ld_walk *walk);

/* --- ldscan.c: the search in ldconfig's order ---------------------------------------------------------------------------- */

/* Searches the queued directories, which may queue more; fills work->items in ldconfig's order of insertion. */
int ld_scan(struct ld_work *work, unsigned threads);

/* --- ldlinks.c: soname links --------------------------------------------------------------------------------------------- */

/*
 * Makes dir/soname lead to the library. A link that cannot be made is skipped, as by ldconfig. Returns 1 when the link
 * is missing because nothing may be written there: then the cache has to name the file itself.
 */
int ld_maintain(struct ld_walk *walk, const struct ld_lib *lib);

/* --- ldencode.c: the file ------------------------------------------------------------------------------------------------ */

/* Turns the work's items into the bytes of a cache, which live in the work's arena. */
int ld_encode(struct ld_work *work, void **data, size_t *size);
