/* hook.c and the files of the hooks, which run while a container starts. */
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
    struct ld_source *sources; /* before the container is created: what will be mounted, or its device nodes */
    size_t source_count;
    const char *root;  /* --root: work on this tree, independent of a container */
    const char *state; /* --container-spec: the state's file, NULL or "-": stdin */
    const char *generator, *compat;
    const char *driver, *cuda; /* the host's versions */
    const char *bundle;        /* of the container that is being started, NULL with --root */
    const char *id;            /* likewise, NULL also where the state has none */
    int elsewhere;             /* as in ld_options */
    bool settle, keep_links, vendor;
    bool unusual; /* an option is unknown, or not for the start of a container */
};

/* What is needed to do a hook's work before the container is created. */
enum hook_before {
    HOOK_LATER,     /* not possible */
    HOOK_TREE,      /* the image's files: what will be mounted is neither read nor replaced */
    HOOK_LIBRARIES, /* also the libraries that will be mounted, as `sources`, and the results of earlier hooks */
    HOOK_NODES,     /* the device nodes that the container gets, as `sources`; without any nothing is done */
};

struct hook {
    const char *name;
    int (*run)(const struct root *root, const struct hook_call *call, struct fault *fault);
    enum hook_before before;
    bool makes_libraries; /* it may add files, or directories, that a hook with HOOK_LIBRARIES must see */
    bool mounts;          /* it needs the privilege to mount */
};

/* All hooks in C, in the order in which they run in one process; a row without a name ends the table. */
extern const struct hook hook_table[];

struct hook_option {
    const char *name;
    enum hook_form { HOOK_FLAG, HOOK_TEXT, HOOK_LIST } form;
    size_t member; /* offset in struct hook_call, SIZE_MAX: an option of the vendor's, ignored here */
    bool unusual;
};

/* All options of hooks, ended likewise. A hook ignores those of others, as the vendor's program does. */
extern const struct hook_option hook_options[];

/*
 * Whether a command line is a call of hooks in C.
 * *first: index of the word after the program's name or the word `hook`. *vendor: it has the vendor's form.
 */
bool is_hook_call(int argc, char *const argv[], int *first, bool *vendor);

/*
 * Reads a command line from argv[first] on; the texts of CALL, which is zero before but for `vendor`, point into argv.
 * -EINVAL, with FAULT: no hook is named, or an option is unknown or without its value; -E2BIG: there are too many
 * words.
 */
int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault);

/*
 * Runs a hook by its name, with the options of CALL, on a root.
 * -ENOSYS, with FAULT: no hook has this name; -EXDEV: a path will be covered by a mount; others of the hook.
 */
int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault);

/* cffi: end */

/* Runs all hooks of a command line in this process, after giving up privileges. Returns the exit status. */
int run_hooks(int argc, char *const argv[], int first, bool vendor);

/* --- hookstate.c: the container's root --------------------------------------------------------------------------------- */

/* The time that all hooks of a start may take together, in milliseconds. */
enum { HOOK_DEADLINE = 2000 };

struct hook_target { /* from the state and the bundle's config.json */
    char id[1024], bundle[4096], root[4096];
    int64_t uid, gid; /* host ids of the container's root, 0 without a user namespace */
    int64_t pid;      /* of the container's first process; 0 or 1 where it is not known on the host */
};

/*
 * Finds the container's root by the state on stdin, or in the file that the call names.
 * -EBADMSG, with FAULT: it is not a state as runtimes write it; -ETIMEDOUT: stdin stays silent; others of reading.
 */
int hook_target_read(const struct hook_call *call, struct hook_target *target, struct fault *fault);

/* If the container's process has a mount namespace of its own, changes the handle to the root in that namespace. */
void hook_target_enter(const struct hook_target *target, struct root *root);

/* hooklog.c: adds a line to the log of creates, if there is one: a hook of this container's start failed, and why. */
void hook_log(const struct hook_call *call, const char *hook, const char *text);

/* --- privileges.c --------------------------------------------------------------------------------------------------------- */

/* no_new_privs, only these capabilities (a bit for each), umask 022, working directory "/". Errors of these calls. */
int drop_privileges(uint64_t capabilities);

/* Keeps the container's processes from tracing this process and from opening its descriptors. */
void hide_process(void);

/* --- the hooks: on failure a negative errno value, and a line in the fault ---------------------------------------------- */

struct dirent;

/*
 * hooktree.c: calls a function for each entry of a directory, with CONTEXT, until it fails; never for a missing
 * directory. Returns the function's last result, -EXDEV for a directory that will be covered, or errors of reading.
 */
int hook_each_name(const struct root *root, const char *path, int (*take)(const struct dirent *, void *),
                   void *context);

/* hookcache.c: adds the folders of --folder to the files of the root's loaders: glibc's cache, musl's directory list. */
int hook_update_ldcache(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hooktree.c: makes the links of --link, as many as possible; fails with the error of the first that is not. */
int hook_create_symlinks(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hookcompat.c: puts the image's own libcuda first if it fits the host's driver, else undoes an earlier choice. */
int hook_enable_cuda_compat(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hookparams.c: mounts over the driver's parameters a copy that forbids libraries to make device nodes. */
int hook_device_nodes(const struct root *root, const struct hook_call *call, struct fault *fault);

/* hooktree.c: writes for the vendor's EGL which of the host's GPUs the container has: a bit for each /dev/nvidiaN. */
int hook_application_profile(const struct root *root, const struct hook_call *call, struct fault *fault);
