/* The parts of the ld.so.cache writer; see ldcache.c for the whole. */
#pragma once

#include "root.h"

/* ---- ldprofile.c: whose ldconfig is imitated ---- */

#define LD_EXTENSION_MAGIC 0xeaa42174u
#define LD_NEWEST "ldconfig (GNU libc) stable release version 2.41"

enum ld_family { LD_X86, LD_ARM, LD_POWER, LD_S390, LD_RISCV, LD_LOONG };

struct ld_arch {
    const char *triplet;
    uint16_t machine;            /* e_machine of its libc */
    uint8_t class;               /* 1: 32 bit, 2: 64 bit */
    enum ld_family family;
    bool unsigned_char;          /* ldconfig compares names as char */
    const char *folders[9];      /* built-in directories of an unpatched glibc */
};

struct ld_profile {
    const struct ld_arch *arch;
    bool old;                    /* glibc <= 2.36: hwcap subdirectories, `dir=type` lines, a type found by need */
    bool debian;                 /* Debian's built-in directories, and the dynamic loader's link is left alone */
    bool found;                  /* the root has a libc that names its version */
    char generator[160];
};

void ld_profile_find(const struct root *root, struct ld_profile *profile);
bool ld_profile_name(struct ld_profile *profile, const char *generator, size_t length);
int ld_compare(const struct ld_arch *arch, const char *one, const char *two);
uint64_t ld_hwcap_bit(const struct ld_profile *profile, const char *name);

/* ---- elf.c: what ldconfig wants to know about one file ---- */

enum { LD_TYPE_ELF = 1, LD_TYPE_LIBC6 = 3 };
enum { LD_SONAME_MAX = 128 * 1024 };

struct elf_facts {
    int flags;
    unsigned isa;
    bool aout;                    /* not ELF: the soname comes from the file's name */
    bool named;                   /* soname holds the DT_SONAME */
    char soname[LD_SONAME_MAX];
};

int elf_read(int fd, uint64_t size, const struct ld_profile *profile, struct elf_facts *facts);

/* ---- ldconf.c: which directories, in which order ---- */

struct ld_entry {
    const char *name;
    const char *target;           /* text of a link */
    const char *soname;           /* NULL: the file has none */
    int flags;
    uint8_t isa;
    uint8_t type;                 /* DT_REG, DT_LNK, DT_DIR; 0: gone */
    bool library, aout;
    dev_t dev;                    /* identity, known for a.out files only */
    ino_t ino;
};

struct ld_dir {
    const char *path;             /* as spelled first: this is what the cache shows */
    dev_t dev;
    ino_t ino;
    const char *hwcaps;           /* name of a glibc-hwcaps subdirectory, or NULL */
    int type;                     /* libc type demanded by a `dir=type` line, 0: any */
    /* filled by ldscan.c */
    int fd;
    bool listed, foreign;
    unsigned state;               /* the tree's state that the listing shows */
    struct ld_entry *entries;     /* in readdir order */
    size_t count, scanned, room;
    uint32_t *table;              /* names to entries */
    size_t mask;
};

struct ld_item {                      /* one line of the cache */
    const char *key, *value;
    int flags;
    unsigned isa;
    uint64_t hwcap;
    const char *hwcaps;
};

struct ld_work {
    const struct root *root;
    const struct ld_profile *profile;
    struct arena arena;
    bool keep_links;              /* like ldconfig -X */
    struct ld_dir **dirs;
    size_t dir_count, dir_room;
    const char **hwcaps;          /* every glibc-hwcaps name seen, used or not */
    size_t hwcaps_count, hwcaps_room;
    struct ld_item *items;
    size_t item_count, item_room;
    unsigned files;               /* configuration files read */
    size_t names;                 /* directory entries kept */
    unsigned state;               /* counts changes that a listing cannot show */
    unsigned links_made, links_removed, links_refused;
    struct ld_aout *aouts;
};

int ld_conf_read(struct ld_work *work, const char *path);
int ld_conf_builtin(struct ld_work *work);
int ld_conf_folder(struct ld_work *work, const char *path, int type);
int ld_conf_queue(struct ld_work *work, const struct ld_dir *dir);
bool ld_glob(const char *pattern, const char *name);

/* ---- ldscan.c ---- */

int ld_scan(struct ld_work *work, unsigned threads);

/* ---- ldcache.c ---- */

struct ld_options {
    const char *const *folders;   /* absolute paths in the root, written to the drop-in */
    size_t folder_count;
    const char *generator;        /* imitate this one, NULL: find out */
    bool keep_links;              /* maintain no soname links */
    bool settle;                  /* as if run twice */
    bool must_find;               /* scan the folders even where the root's configuration does not reach the drop-in */
    unsigned threads;             /* 0: two */
};

struct ld_report {
    unsigned entries, links_made, links_removed, links_refused;
    bool written, settled;
    char generator[160];
};

int ld_encode(struct ld_work *work, void **data, size_t *size);
int ld_update(const struct root *root, const struct ld_options *options, struct ld_report *report, struct fault *fault);
