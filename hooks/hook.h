/* hook.c and the files of the hooks: what runs while a container starts. */
#pragma once

#include "fault.h"
#include "ldcache.h"
#include "root.h"

/* cffi: begin */

enum { HOOK_WORDS = 512, HOOK_NAMES = 16 };

/* The values of an option that may be given several times. */
struct hook_words {
    const char *items[HOOK_WORDS];
    size_t count;
};

/* A command line of `shim hook` or of the vendor's hook program; hook_options has the member of each option. */
struct hook_call {
    const char *names[HOOK_NAMES];
    size_t name_count;
    struct hook_words folders, links;
    struct ld_source *sources; /* before the container is made: what will be mounted, or its device nodes */
    size_t source_count;
    const char *root;  /* --root: work on this tree, outside of a container's start */
    const char *state; /* --container-spec: the state's file, NULL or "-": stdin */
    const char *generator, *compat;
    const char *driver, *cuda; /* the host's versions */
    const char *bundle;        /* of the container that is being started, NULL with --root */
    int elsewhere;             /* as in ld_options */
    bool settle, keep_links, vendor;
    bool unusual; /* some option is one that no start of a container needs, or an unknown one */
};

/* What it takes to do a hook's work before the container is made. */
enum hook_before {
    HOOK_LATER,     /* it cannot be done */
    HOOK_TREE,      /* the image's files: what will be mounted is neither read nor replaced */
    HOOK_LIBRARIES, /* also the libraries that will be mounted, as `sources`, and what the hooks before it made */
    HOOK_NODES,     /* the device nodes that the container gets, as `sources`; nothing is done without one */
};

struct hook {
    const char *name;
    int (*run)(const struct root *root, const struct hook_call *call, struct fault *fault);
    enum hook_before before;
    bool makes_libraries; /* it may add files, or directories, that a hook with HOOK_LIBRARIES must see */
    bool mounts;          /* it needs the right to mount */
};

/* All hooks in C, in the order in which they run in one process; a row without a name ends the table. */
extern const struct hook hook_table[];

struct hook_option {
    const char *name;
    enum hook_form { HOOK_FLAG, HOOK_TEXT, HOOK_LIST } form;
    size_t member; /* offset in struct hook_call, SIZE_MAX: the vendor's, without a meaning here */
    bool unusual;
};

/* All options of hooks, ended likewise. A hook passes over those of others, as the vendor's program does. */
extern const struct hook_option hook_options[];

/*
 * Whether a command line is a call of hooks that are C.
 * *first: index of what follows the name of the program or the word `hook`. *vendor: it has the vendor's form.
 */
bool is_hook_call(int argc, char *const argv[], int *first, bool *vendor);

/*
 * Reads a command line from argv[first] on; the texts of CALL, which is zero before but for `vendor`, point into argv.
 * -EINVAL, with FAULT: no hook is named, or an option is unknown or without its value; -E2BIG: there are too many words.
 */
int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault);

/*
 * Runs one hook by its name, with the result that CALL asks for, on a root.
 * -ENOSYS, with FAULT: there is none of this name; -EXDEV: something will be covered by a mount; others of the hook.
 */
int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault);

/* cffi: end */

/* Runs all hooks of a command line in this process, after giving up what they do not need. Returns the exit status. */
int run_hooks(int argc, char *const argv[], int first, bool vendor);

/* --- hookstate.c: where the container is --------------------------------------------------------------------------------- */

/* The time that all hooks of one start may take, in milliseconds. */
enum { HOOK_DEADLINE = 2000 };

struct hook_target { /* from the state and the bundle's config.json */
    char bundle[4096], root[4096];
    int64_t uid, gid; /* host ids of the container's root, 0 without a user namespace */
    int64_t pid;      /* of the container's first process; 0 or 1 where it is not known on the host */
};

/*
 * Finds the container's root by the state on stdin, or in the file that the call names.
 * -EBADMSG, with FAULT: it is not what runtimes write; -ETIMEDOUT: nothing comes; others of reading.
 */
int hook_target_read(const struct hook_call *call, struct hook_target *target, struct fault *fault);

/* Where the container's process has a mount namespace of its own: lets the handle see the root as that process does. */
void hook_target_enter(const struct hook_target *target, struct root *root);

/* --- privileges.c --------------------------------------------------------------------------------------------------------- */

/* no_new_privs, only these capabilities (a bit for each), umask 022, working directory "/". Errors of these calls. */
int drop_privileges(uint64_t capabilities);

/* Keeps the container's processes from tracing this one and from looking at what it has open. */
void hide_process(void);

/* --- the hooks: on failure a negative errno value, and one line in the fault -------------------------------------------- */

struct dirent;

/*
 * hooktree.c: hands each name of a directory, and CONTEXT, to a function until that fails; a missing directory has none.
 * Returns what the function returned, -EXDEV for what will be covered, or errors of reading.
 */
int hook_each_name(const struct root *root, const char *path, int (*take)(const struct dirent *, void *),
                   void *context);

/* hookcache.c: adds the folders of --folder to what the root's loaders read: glibc's cache, or musl's list of directories. */
int hook_update_ldcache(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hooktree.c: makes the links that --link asks for, all that can be made; fails with the first that cannot. */
int hook_create_symlinks(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hookcompat.c: puts the image's own libcuda first where that is right, and takes an earlier choice back where it is not. */
int hook_enable_cuda_compat(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hookparams.c: mounts a copy of the driver's parameters that forbids libraries to make device nodes over the original. */
int hook_device_nodes(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hooktree.c: writes for the vendor's EGL which of the machine's GPUs are in the container: one bit for each /dev/nvidiaN. */
int hook_application_profile(const struct root *root, const struct hook_call *call, struct fault *fault);
