/*
 * The one header of all our C.
 *
 * The error rule. A function that can fail returns a negative errno value (-ENOENT); zero or more is success. On
 * failure nothing that the caller passed in has changed. Nothing here prints or exits except launcher.c and hook.c,
 * which own the process; errno itself is never read across a call of ours. Texts for people are made in one place:
 * problem() in report.c.
 *
 * Memory. Nothing allocates: the caller brings the room, and every const char * that is handed back points into
 * what the caller passed in. Only the hooks' larger work takes memory, from an arena that is freed at once. File
 * descriptors are O_CLOEXEC from birth and closed by `cleanup_fd`.
 *
 * The same files are built twice: into the static launcher and into the Python module shim.hooks._core.
 */
#pragma once

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* elf(5) of musl and of older C libraries lacks these. */
#ifndef EF_RISCV_RVC
#define EF_RISCV_RVC 0x0001
#define EF_RISCV_FLOAT_ABI 0x0006
#define EF_RISCV_FLOAT_ABI_SOFT 0x0000
#define EF_RISCV_FLOAT_ABI_DOUBLE 0x0004
#endif
#ifndef EM_LOONGARCH
#define EM_LOONGARCH 258
#endif

/* Closes an int file descriptor when it goes out of scope; a negative one is nothing. */
#define cleanup_fd __attribute__((cleanup(close_fd)))

static inline void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* grammar.c: the command lines of the low-level runtimes. */

enum grammar { RUNC, CRUN };

/* What a command line says. Pointers are NULL where it says nothing. */
struct call {
    const char *verb;
    int at;                 /* index of the verb in argv, 0 without one */
    bool injects;           /* create, run or restore, and not only a question for help or version */
    const char *bundle;     /* NULL also for runc's empty --bundle, which means the working directory too */
    const char *config;     /* a file other than the bundle's config.json, relative to the working directory */
    const char *process;    /* exec's process file, unless only a question is asked */
    const char *resources;  /* update's file of resources, "-" for standard input, likewise */
    const char *id;         /* the last operand; of exec the first */
    const char *root;
    const char *log;        /* a path that can be written to: never crun's journald: or syslog: */
    const char *log_format;
    const char *unknown;    /* an option before the verb that leaves open which word is the verb */
    int devices;            /* entries of the devices array; they are a request where `injects` */
    int kept;               /* entries of the kept array, the closing NULL not counted */
};

/* The grammar that a low-level runtime follows, told by the last part of its path. */
enum grammar grammar_of(const char *path);

/*
 * Reads argv, argv[0] included. `kept` receives argv without our --device options and a closing NULL: room for
 * argc + 1; `devices` receives the values of these options, those in front of the verb first: room for argc. It cannot
 * fail: what no table knows is the runtime's. With `unknown`, all words in front of the verb are kept.
 */
void parse_call(enum grammar grammar, int argc, char *const argv[], struct call *call, char **kept, char **devices);

/* scan.c: the request scan. */

/* A text that stands in every request of some kind; not empty, and without a NUL. */
struct needle {
    const char *text;
    size_t size;
};

/* One for each built-in source; the first is that of annotations, the only source without a configuration. */
enum { BUILT_IN_NEEDLES = 4 };
extern const struct needle built_in_needles[BUILT_IN_NEEDLES];

/* Whether the bytes of a config.json could hold a request that has one of these. Errs only towards true. */
bool asks(const char *text, size_t size, const struct needle *needles, size_t count);

/* needles.c: which needles there are. */

enum { MAX_NEEDLES = 256 };

/* Needles, and what they point into. */
struct needle_file {
    char text[(64 << 10) + 1]; /* one byte more than the file may have */
    struct needle needles[MAX_NEEDLES + BUILT_IN_NEEDLES];
    size_t count;
    bool is_current; /* false: the texts of requests are unknown, and these are those that are most likely */
};

/*
 * The needles of the configuration that counts here, told by the environment. Where no file says them, those of every
 * built-in source, and those of the configuration that counted last in this boot, if a file still says these.
 */
void find_needles(struct needle_file *file);

/* Reads a file of needles: how many there are, -EPERM, -EINVAL and others for one that does not count. */
int read_needles(const char *directory, const char *name, struct needle_file *file);

/* The same for its text, which is changed. *is_current: every input of the file is what it was. */
int parse_needles(char *text, size_t size, struct needle *needles, size_t room, bool *is_current);

/* place.c: our files of this boot. */

/* Whether we are the host's root: effective uid 0, and every uid means itself. */
bool is_rootful(void);

/*
 * Writes the path of the directory: /run/shim for the host's root, else $XDG_RUNTIME_DIR/shim. -ENOENT and others:
 * there is no place for them.
 */
int run_directory(char *out, size_t room);

/*
 * Whether an open file or directory is one of ours: of this kind (S_IFREG, S_IFDIR), the caller's own, and writable by
 * nobody else. Others may read it or pass through it: a tmpfiles line makes /run/shim with mode 0755.
 */
bool is_ours(int fd, mode_t kind);

/* A name for bytes: FNV-1a of 64 bits, over what came before, SHORT_NAME at first. */
#define SHORT_NAME 0xcbf29ce484222325
uint64_t short_name(uint64_t before, const char *bytes, size_t size);

/* What a container's record is called: 16 hexadecimal digits and a NUL. root and id may be NULL. */
enum { KEY_SIZE = 17 };
void record_key(char out[KEY_SIZE], const char *name, const char *root, const char *id);

/* Whether a container has a record, that is, whether a create injected something into it. */
bool has_record(const char *key);

/* lowlevel.c: which low-level runtime a launcher becomes */

#define LOW_LEVEL_LINKS "/etc/shim/low-level"
extern const char *const low_level_links; /* the same for Python */

/* The directories in which runtimes lie, whatever PATH says: podman calls with no PATH at all. */
#define PROGRAM_DIRECTORIES 6
extern const char *const program_directories[PROGRAM_DIRECTORIES];

enum low_level_answer {
    LOW_LEVEL_FOUND,
    LOW_LEVEL_MISSING,   /* there is no link, or no program */
    LOW_LEVEL_NO_LINK,   /* something else is in the link's place */
    LOW_LEVEL_RELATIVE,  /* the link does not lead to an absolute path */
    LOW_LEVEL_SELF,      /* the link leads to the launcher */
};

struct low_level {
    char path[PATH_MAX];    /* the runtime, or where a wrong link leads */
    char link[PATH_MAX];    /* the link that was read */
    char own[PATH_MAX];     /* found in the runtime's place: the launcher itself, "" if it was not met */
    char wanted[PATH_MAX];  /* of a search without result: the names */
};

/*
 * What the link for the launcher's name says. Whether the program is there and can be executed is not asked.
 * root: "" for the machine's own files, else the directory before each path. name: last part of the launcher's argv[0].
 * launcher: a path that leads to its file, below no root.
 */
enum low_level_answer low_level_by_link(const char *root, const char *name, const char *launcher, struct low_level *out);

/* What is found without a link. path: PATH of whoever calls the launcher, or NULL. */
enum low_level_answer low_level_by_search(const char *root, const char *name, const char *launcher, const char *path,
                                          struct low_level *out);

/* report.c: what the launcher has to say when it cannot go on. */

/* What an errno value means for a file that was to be used, in words that no engine turns into an exit status. */
const char *problem(int error);

/*
 * Writes text into out as the inside of a JSON string, NUL-terminated and cut at a whole character when room is
 * short: control characters and bytes that are not UTF-8 never come through. Quotes and backslashes are escaped
 * when `quotes`.
 */
void escape(char *out, size_t room, const char *text, bool quotes);

/* Writes the time, in seconds since 1970, in RFC 3339 and UTC: room for 21 bytes. */
void stamp(char *out, long now);

/* One line to stderr and, when log is not NULL, one in runc's form to the file: JSON when log_format says so. */
void report(const char *log, const char *log_format, const char *message);

/* --- below a container's root ------------------------------------------------------------------------------------ */

/* fault.c: the one way to say what went wrong */

struct fault {
    int code;        /* errno value, 0 = nothing happened */
    char text[300];  /* one line, control characters replaced */
};

/* Writes the text, and behind it what the code means; answers -code. A null fault is allowed. */
int fault_set(struct fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a text that says it all. */
int fault_say(struct fault *fault, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));


/* arena.c: memory that is freed at once */

struct arena {
    struct arena_chunk *chunks;
    size_t taken, limit;
};

size_t arena_room(const struct arena *arena);
void *arena_get(struct arena *arena, size_t bytes);  /* zeroed, aligned; NULL: out of memory or over the limit */
char *arena_text(struct arena *arena, const char *text, size_t length);
char *arena_join(struct arena *arena, const char *folder, const char *name);  /* folder/name */
void *arena_grow(struct arena *arena, void *old, size_t used, size_t *room, size_t size);
void arena_merge(struct arena *into, struct arena *from);
void arena_free(struct arena *arena);

/* root.c, rootwrite.c: the root handle */

struct root {
    int fd;            /* the root directory; the only descriptor that paths start from */
    bool one_mount;    /* writes stay on the mount of the root itself: never into a volume or a host directory */
    bool sync;         /* fsync what is written */
    uid_t uid;         /* owner of what is made, or (uid_t)-1: whoever we are */
    gid_t gid;
    int64_t deadline;  /* CLOCK_MONOTONIC nanoseconds after which every function answers -ETIMEDOUT, 0: none */
    struct covers *covers;  /* what will be mounted over the tree, NULL: it is all there */
};

#define ROOT_NOBODY ((uid_t)-1)

int root_open(struct root *root, const char *path, struct fault *fault);
void root_close(struct root *root);
void root_limit(struct root *root, unsigned milliseconds);
int root_late(const struct root *root);

int root_resolve(const struct root *root, const char *path, int flags);  /* covers do not count */
int root_at(const struct root *root, const char *path, int flags, uint64_t resolve);
int root_stat(const struct root *root, const char *path, struct stat *st);
int root_lstat(const struct root *root, const char *path, struct stat *st);
int root_directory(const struct root *root, const char *path, bool *foreign);
int root_regular(const struct root *root, const char *path, struct stat *st);
int root_config(const struct root *root, const char *path, bool follow, struct stat *st);
int root_below(int directory, const char *path, int flags);
int root_entry(int directory, const char *name, bool foreign, struct stat *st, bool *mounted);
ssize_t root_read(const struct root *root, int fd, char *into, size_t room);
bool root_holds(const struct root *root, const char *path, const void *data, size_t size);

int root_mkdir(const struct root *root, const char *path, mode_t mode);
int root_mkdir_parent(const struct root *root, const char *path, mode_t mode);
int root_replace(const struct root *root, const char *path, const void *data, size_t size, mode_t mode);
int root_link(const struct root *root, const char *path, const char *target);
int root_link_new(const struct root *root, int directory, const char *name, const char *target);
int root_link_at(const struct root *root, int directory, const char *name, const char *target);
int root_unlink(const struct root *root, const char *path);
int root_parent(const struct root *root, const char *path, const char **base);
bool root_empty(const struct root *root);

/* cover.c: what will be mounted over a root when the container is made */

enum { COVER_PATH = 2048 };

struct cover {
    const char *path;             /* the mount point, in the root */
    const char *source;           /* what is mounted, on the host; NULL: a file system without links, such as tmpfs */
    bool lent;                    /* a struct ld_source: it may be listed, but what is below is not seen from here */
    char real[COVER_PATH];        /* filled by root_cover */
};

struct covers {
    struct cover *items;
    size_t count;
    bool met;                     /* something below a cover was wanted */
    char where[COVER_PATH];       /* the first of these */
};

int root_cover(struct root *root, struct covers *covers, struct fault *fault);
int cover_check(const struct root *root, const char *path, bool follow);
int cover_check_inside(const struct root *root, const char *path, bool (*matters)(const void *, const char *),
                       const void *context);
int cover_note(const struct root *root, const char *path);
int cover_verdict(const struct root *root, int rc, struct fault *fault);

/* --- the ld.so.cache; ldcache.c tells how the parts work together --------------------------------------------------- */

/* ldprofile.c: whose ldconfig is imitated */

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

/* elffile.c: an ELF file, read in small parts */

enum { ELF_HEAD = 4096, ELF_PART = 1024, ELF_READS = 1024 };

struct elf_file {
    int fd;
    uint64_t size;
    unsigned reads;
    bool native32;             /* 32-bit headers */
    size_t head_have;
    unsigned char head[ELF_HEAD];  /* the beginning: headers, notes, often the strings too */
    struct elf_part {
        uint64_t at;
        size_t have;
        unsigned char bytes[ELF_PART];
    } parts[2];                /* the latest two other places: dynamic entries, their strings */
    unsigned latest;
};

bool elf_begin(struct elf_file *file, int fd, uint64_t size);
void elf_get(struct elf_file *file, uint64_t at, void *into, size_t size);
uint32_t elf_get32(struct elf_file *file, uint64_t at);
bool elf_spent(const struct elf_file *file);
bool elf_within(const struct elf_file *file, uint64_t at);
bool elf_string_is(struct elf_file *file, uint64_t at, const char *text);
bool elf_get_string(struct elf_file *file, uint64_t at, char *into);

/* elfnote.c: a note that is found by its section's name; the size of what it says, 0: there is none */
size_t elf_note(int fd, uint64_t size, const char *section, const char *owner, char *into, size_t room);

/* elf.c: what ldconfig wants to know about one file */

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

/* ldconf.c: which directories, in which order */

struct ld_entry {
    const char *name;
    const char *target;           /* text of a link */
    const char *soname;           /* NULL: the file has none */
    int flags;
    uint8_t isa;
    uint8_t type;                 /* DT_REG, DT_LNK, DT_DIR; 0: gone */
    bool library, aout;
    bool injected;                /* something is, or will be, mounted over it */
    dev_t dev;                    /* identity, known for a.out files only */
    ino_t ino;
};

struct ld_source {                    /* something of the host that will be mounted into the root */
    const char *path;             /* where, in the root */
    const char *source;           /* what, on the host; trusted, as it comes from a spec */
    dev_t dev;                    /* the mount point, filled by ldcache.c */
    ino_t ino;
};

struct ld_dir {
    const char *path;             /* as spelled first: this is what the cache shows */
    dev_t dev;
    ino_t ino;
    const char *hwcaps;           /* name of a glibc-hwcaps subdirectory, or NULL */
    int type;                     /* libc type demanded by a `dir=type` line, 0: any */
    bool injected;                /* a hook's folder, or files in it are mounted: a driver's libraries came here */
    /* filled by ldlist.c */
    int fd;
    const struct ld_source *lent; /* a directory of the host, seen before it is mounted: this one, or one below it */
    const char *below;
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

/* The drop-ins of our hooks, in the order of their names, which is that of the search. */
#define LD_COMPAT_DROP_IN "/etc/ld.so.conf.d/00-cdi-compat.conf"
#define LD_FOLDERS_DROP_IN "/etc/ld.so.conf.d/00-cdi-shim.conf"

enum { LD_COMPAT, LD_FOLDERS, LD_DROP_INS };

struct ld_drop_in {
    dev_t dev;
    ino_t ino;
    bool valid;                   /* it is there and says what it should */
    bool read;                    /* the root's configuration includes it */
};

struct ld_work {
    const struct root *root;
    const struct ld_profile *profile;
    struct arena arena;
    bool keep_links;              /* like ldconfig -X */
    bool replace_empty;
    const struct ld_source *sources;
    size_t source_count;
    struct ld_dir **dirs;
    size_t dir_count, dir_room;
    const char **hwcaps;          /* every glibc-hwcaps name seen, used or not */
    size_t hwcaps_count, hwcaps_room;
    struct ld_item *items;
    size_t item_count, item_room;
    unsigned files;               /* configuration files read */
    struct ld_drop_in drop_ins[LD_DROP_INS];
    bool injecting;               /* the directories that are queued now are folders of the hook */
    struct fault remark;          /* the first thing that did not stop the work but that people should know */
    size_t names;                 /* directory entries kept */
    unsigned state;               /* counts changes that a listing cannot show */
    unsigned links_made, links_removed, links_refused;
    struct ld_aout *aouts;
};

int ld_conf_read(struct ld_work *work, const char *path);
void ld_conf_restart(struct ld_work *work);
int ld_conf_builtin(struct ld_work *work);
int ld_conf_folder(struct ld_work *work, const char *path, int type);
int ld_conf_queue(struct ld_work *work, const struct ld_dir *dir);
int ld_conf_lent(struct ld_work *work, const struct ld_dir *parent, const char *path, const char *name, const char *hwcaps);

/* ldlent.c: what will be mounted */
bool ld_lexical(const char *folder, const char *target, char *into, size_t room);
const struct ld_source *ld_source_over(const struct ld_work *work, dev_t dev, ino_t ino);
const struct ld_source *ld_source_above(const struct ld_work *work, const char *path, const char **below);
int ld_source_open(const struct ld_source *source, const char *below, int flags);

/* ldglob.c: patterns of include lines */

struct ld_matches {
    struct ld_work *work;
    const char **paths;
    size_t count, room;
};

bool ld_glob(const char *pattern, const char *name);
int ld_expand(struct ld_matches *matches, const char *pattern);

/* ldlist.c: what the directories hold */

/* Lists the directories from..to of the work's list and looks into their files. */
int ld_prepare(struct ld_work *work, size_t from, size_t to, unsigned threads);

/* What one file is; `entry` gets the answer. */
int ld_look(const struct ld_work *work, struct arena *arena, int fd, const struct stat *st, struct ld_entry *entry);

/* Whether ldconfig looks at an entry of this name and type (DT_REG...) in this directory at all. */
bool ld_wanted(const struct ld_work *work, const struct ld_dir *dir, const char *name, uint8_t type);

struct ld_entry *ld_find(const struct ld_dir *dir, const char *name);
uint32_t *ld_slot(const struct ld_dir *dir, const char *name);
uint32_t ld_hash(const char *name);

/* ldscan.c: what ldconfig makes of it */

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
    struct ld_lib *libs;   /* in the order of first appearance */
    size_t count;
    uint32_t *table;    /* sonames to libs */
    size_t mask;
};

bool ld_trusted(const struct ld_walk *walk);
bool ld_ours(const struct ld_walk *walk);
bool ld_our_trouble(int error);
struct ld_entry *ld_follow(const struct ld_dir *dir, struct ld_entry *entry);
int ld_scan(struct ld_work *work, unsigned threads);

/* ldlinks.c: soname links */
int ld_maintain(struct ld_walk *walk, const struct ld_lib *lib);

/* ldencode.c */
int ld_encode(struct ld_work *work, void **data, size_t *size);

/* ldcache.c */

struct ld_options {
    const char *const *folders;   /* absolute paths in the root, written to the drop-in */
    size_t folder_count;
    struct ld_source *sources;    /* files and directories that will be there when the container runs */
    size_t source_count;
    const char *generator;        /* imitate this one, NULL: find out */
    bool keep_links;              /* maintain no soname links */
    bool settle;                  /* as if run twice */
    bool replace_empty;           /* beside injected libraries an empty file gives way to a soname link, see ldlinks.c */
    bool links_only;              /* make the soname links of the folders, and no cache */
    int elsewhere;                /* > 0: takes the cache of a root that cannot be written, which is not written then */
    unsigned threads;             /* 0: two */
};

struct ld_report {
    unsigned entries, links_made, links_removed, links_refused;
    bool written;
    char generator[160];
    struct fault remark;          /* code 0: none */
};

int ld_update(const struct root *root, const struct ld_options *options, struct ld_report *report, struct fault *fault);

/* --- the hooks ---------------------------------------------------------------------------------------------------- */

/* json.c: a pull reader */

struct json {
    const char *at, *end;
    bool failed, fresh;
    unsigned depth;
    uint32_t objects[4];          /* a bit for each open bracket: an object */
};

void json_open(struct json *json, const char *text, size_t size);
char json_next(struct json *json);
bool json_enter(struct json *json, char open);
bool json_more(struct json *json);
bool json_member(struct json *json, char *name, size_t room);
bool json_string(struct json *json, char *into, size_t room);
bool json_integer(struct json *json, int64_t *value);
void json_skip(struct json *json);
bool json_done(struct json *json);

/* hook.c: what runs while a container starts */

enum { HOOK_WORDS = 512, HOOK_NAMES = 16, HOOK_DEADLINE = 2000 };

struct hook_call {                /* a command line of `shim hook` or of the vendor's hook program */
    const char *names[HOOK_NAMES];
    size_t name_count;
    const char *folders[HOOK_WORDS], *links[HOOK_WORDS];
    size_t folder_count, link_count;
    struct ld_source *sources;    /* what will be mounted, when the hook's work is done before the container is made */
    size_t source_count;
    const char *root;             /* --root: work on this tree, outside of a container's start */
    const char *state;            /* --container-spec: the state's file, NULL or "-": stdin */
    const char *generator, *compat;
    const char *driver, *cuda;    /* the host's versions */
    const char *bundle;           /* of the container that is being started, NULL with --root */
    int elsewhere;                /* as in ld_options */
    bool settle, keep_links, vendor;
    bool passed_over;             /* an option of the vendor's form that is unknown */
};

struct hook_target {              /* what the state and the bundle's config.json say */
    char bundle[4096], root[4096];
    int64_t uid, gid;             /* host ids of the container's root, 0 without a user namespace */
    int64_t pid;                  /* of the container's first process; 0 or 1 where nobody outside can know it */
};

/* Whether argv is a call of hooks that are C; with what follows the name of the program or the word `hook`. */
bool is_hook_call(int argc, char *const argv[], int *first, bool *vendor);

/* Reads argv from FIRST on; what it says points into argv. */
int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault);

/* Runs them all in this process, after giving up what they do not need. Answers the exit status. */
int run_hooks(int argc, char *const argv[], int first, bool vendor);

/* Runs one hook by its name; -ENOSYS when there is none of this name. */
int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault);

/* hookstate.c */
int hook_target_read(const struct hook_call *call, struct hook_target *target, struct fault *fault);
void hook_target_enter(const struct hook_target *target, struct root *root);

/* privileges.c: no_new_privs, only these capabilities (a bit for each), umask, working directory. */
int drop_privileges(uint64_t capabilities);

/* Lets nobody trace this process or look at what it has open. */
void hide_process(void);

/* hooktree.c: hands each name of a directory to a function until that fails; a missing directory has none. */
struct dirent;
int hook_each_name(const struct root *root, const char *path, int (*take)(const struct dirent *, void *), void *context);

/* hookcache.c, hooktree.c, hookcompat.c, hookparams.c: the hooks. On failure a negative errno, and one line in the fault. */
int hook_update_ldcache(const struct root *root, const struct hook_call *call, struct fault *fault);
int hook_create_symlinks(const struct root *root, const struct hook_call *call, struct fault *fault);
int hook_enable_cuda_compat(const struct root *root, const struct hook_call *call, struct fault *fault);
int hook_device_nodes(const struct root *root, const struct hook_call *call, struct fault *fault);
int hook_application_profile(const struct root *root, const struct hook_call *call, struct fault *fault);
