/*
 * `shim hook NAME...`: runs one or several hooks in a process, while a container starts.
 *
 * A hook runs as root, and reads an image that may be hostile. So it first finds the container's root by the state on
 * stdin, opens it, and gives up the privileges that it does not need; then it reads the image. No environment variable
 * is read. A hook of an unknown name is ignored, as by the vendor's program, so that a newer spec works here.
 *
 * An error inside the container's tree is only a warning: the container starts, perhaps without a library being found
 * by its name. An error before that (no state, no root, a root that is the host's own) is an error of the hook. With
 * --root, where a user waits for the result, every error is an error.
 */
#define _GNU_SOURCE
#include "hook.h"
#include "report.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

static int refuse_chmod(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    (void)root;
    (void)call;
    return fault_say(fault, EPERM,
                     "modes inside a container are not changed by path; give the node's fileMode in the spec");
}

/* First the hook that mounts, so that the others run without that privilege; then hooks that create files before hooks
 * that search them. */
const struct hook hook_table[] = {
    /* name                              run                          before          makes_libraries, mounts */
    {"disable-device-node-modification", hook_device_nodes,        HOOK_TREE,      false, true },
    {"create-symlinks",                  hook_create_symlinks,     HOOK_TREE,      true,  false},
    {"enable-cuda-compat",               hook_enable_cuda_compat,  HOOK_TREE,      true,  false},
    {"update-ldcache",                   hook_update_ldcache,      HOOK_LIBRARIES, false, false},
    {"update-application-profile",       hook_application_profile, HOOK_NODES,     false, false},
    {"chmod",                            refuse_chmod,             HOOK_LATER,     false, false},
    {NULL,                               NULL,                     HOOK_LATER,     false, false},
};

#define MEMBER(name) offsetof(struct hook_call, name)

const struct hook_option hook_options[] = {
    {"folder",                     HOOK_LIST, MEMBER(folders),    false},
    {"link",                       HOOK_LIST, MEMBER(links),      false},
    {"cuda-compat-container-root", HOOK_TEXT, MEMBER(compat),     false},
    {"host-driver-version",        HOOK_TEXT, MEMBER(driver),     false},
    {"host-cuda-version",          HOOK_TEXT, MEMBER(cuda),       false},
    {"settle",                     HOOK_FLAG, MEMBER(settle),     false},
    {"root",                       HOOK_TEXT, MEMBER(root),       true },
    {"container-spec",             HOOK_TEXT, MEMBER(state),      true },
    {"generator",                  HOOK_TEXT, MEMBER(generator),  true },
    {"keep-links",                 HOOK_FLAG, MEMBER(keep_links), true },
    {"ldconfig-path",              HOOK_TEXT, SIZE_MAX,           false}, /* no ldconfig is run */
    {"path",                       HOOK_TEXT, SIZE_MAX,           false},
    {"mode",                       HOOK_TEXT, SIZE_MAX,           false},
    {"debug",                      HOOK_FLAG, SIZE_MAX,           false},
    {"d",                          HOOK_FLAG, SIZE_MAX,           false},
    {"quiet",                      HOOK_FLAG, SIZE_MAX,           false},
    {"q",                          HOOK_FLAG, SIZE_MAX,           false},
    {NULL,                         HOOK_FLAG, SIZE_MAX,           false},
};

/* The capabilities to read and write as the container's root, and the one that a hook needs for a mount. */
static const uint64_t for_files =
    1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_FOWNER;
static const uint64_t for_mounts = 1ull << CAP_SYS_ADMIN;

/* ---- the command line ---- */

bool is_hook_call(int argc, char *const argv[], int *first, bool *vendor)
{
    static const char *const pythons[] = {"precreate", "netdevices", "help"};
    const char *program = argc > 0 ? last_part(argv[0]) : "";

    *vendor = true;
    *first = 1;
    if (!strcmp(program, "nvidia-cdi-hook"))
        return true;
    *first = 2;
    if (argc < 2 || strcmp(argv[1], "hook"))
        return false;
    if (!strcmp(program, "nvidia-ctk"))
        return true;
    *vendor = false;
    if (strcmp(program, "shim") && strncmp(program, "shim-", 5))
        return false;
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++)
        if (argc < 3 || !strcmp(argv[2], pythons[i]))
            return false;
    for (int i = 2; i < argc; i++) /* no runtime calls a hook with --help */
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return false;
    return true;
}

static const struct hook_option *find_option(const char *name)
{
    for (const struct hook_option *option = hook_options; option->name; option++)
        if (!strcmp(option->name, name))
            return option;
    return NULL;
}

static int add_word(struct hook_words *words, const char *word)
{
    if (words->count == HOOK_WORDS)
        return -E2BIG;
    words->items[words->count++] = word;
    return 0;
}

/* Puts an option into the call; VALUE: the next word, NULL at the end. */
static int take_option(struct hook_call *call, const struct hook_option *option, const char *value)
{
    if (option->form != HOOK_FLAG && !value)
        return -EINVAL;
    call->unusual |= option->unusual;
    if (option->member == SIZE_MAX)
        return 0;
    char *member = (char *)call + option->member;
    switch (option->form) {
    case HOOK_FLAG:
        *(bool *)(void *)member = true;
        return 0;
    case HOOK_TEXT:
        *(const char **)(void *)member = value;
        return 0;
    case HOOK_LIST:
        return add_word((struct hook_words *)(void *)member, value);
    }
    return -EINVAL;
}

/* Reads the option at argv[*at]; in the vendor's form an unknown option is skipped with its value. */
static int read_option(struct hook_call *call, int argc, char *const argv[], int *at, struct fault *fault)
{
    char name[64];
    const char *word = argv[*at] + 1 + (argv[*at][1] == '-');
    size_t length = strcspn(word, "=");
    bool joined = word[length] == '=';
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    const char *shown = argv[*at];

    if (length >= sizeof name)
        return fault_say(fault, EINVAL, "option %s is too long", shown);
    memcpy(name, word, length);
    name[length] = 0;
    const struct hook_option *option = find_option(name);
    if (!option && !call->vendor)
        return fault_say(fault, EINVAL, "unknown option %s", shown);
    if (!option) {
        call->unusual = true;
        *at += !joined && next && *next != '-';
        return 0;
    }
    int rc = take_option(call, option, joined ? word + length + 1 : next);
    if (rc)
        return fault_say(fault, -rc, rc == -E2BIG ? "more than 512 times option %s" : "option %s needs a value", shown);
    *at += option->form != HOOK_FLAG && !joined;
    return 0;
}

int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault)
{
    for (int at = first; at < argc; at++) {
        int rc = 0;
        if (argv[at][0] == '-' && argv[at][1])
            rc = read_option(call, argc, argv, &at, fault);
        else if (call->name_count == HOOK_NAMES)
            rc = fault_say(fault, E2BIG, "more than 16 hooks");
        else
            call->names[call->name_count++] = argv[at];
        if (rc)
            return rc;
    }
    return call->name_count ? 0 : fault_say(fault, EINVAL, "no hook is named");
}

/* ---- running ---- */

static void report_fault(const struct hook_call *call, const char *level, const char *hook, const struct fault *fault)
{
    char line[512];

    snprintf(line, sizeof line, "shim: %s: hook %s: %s", level, hook, fault->text);
    report(NULL, NULL, line);
    if (call->bundle)
        hook_log(call, hook, fault->text);
}

static bool asked(const struct hook_call *call, const char *name)
{
    for (size_t i = 0; i < call->name_count; i++)
        if (!strcmp(call->names[i], name))
            return true;
    return false;
}

static const struct hook *find_hook(const char *name)
{
    for (const struct hook *hook = hook_table; hook->name; hook++)
        if (!strcmp(hook->name, name))
            return hook;
    return NULL;
}

static void warn_of_unknown(const struct hook_call *call)
{
    for (size_t i = 0; i < call->name_count; i++) {
        struct fault fault;
        if (find_hook(call->names[i]))
            continue;
        fault_say(&fault, ENOSYS, "no hook of this name is known; it is passed over");
        report_fault(call, "warning", call->names[i], &fault);
    }
}

int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault)
{
    const struct hook *hook = find_hook(name);

    if (!hook)
        return fault_say(fault, ENOSYS, "no hook of this name is known");
    return cover_verdict(root, hook->run(root, call, fault), fault);
}

static int open_target(struct hook_call *call, struct root *root, struct fault *fault)
{
    static struct hook_target target;

    if (call->root) {
        int length = snprintf(target.root, sizeof target.root, "%s/.", call->root); /* here the root may be a link */
        if (length >= (int)sizeof target.root)
            return fault_set(fault, ENAMETOOLONG, "--root");
        int rc = root_open(root, target.root, fault);
        root->sync = true;
        return rc;
    }
    int rc = hook_target_read(call, &target, fault);
    if (rc)
        return rc;
    call->bundle = target.bundle;
    call->id = *target.id ? target.id : NULL;
    rc = root_open(root, target.root, fault);
    if (rc)
        return rc;
    hook_target_enter(&target, root);
    root->one_mount = true;
    root->own_dev = true;
    if (target.uid)
        root->uid = (uid_t)target.uid;
    if (target.gid)
        root->gid = (gid_t)target.gid;
    root_limit(root, HOOK_DEADLINE);
    return 0;
}

static bool mounts(const struct hook_call *call)
{
    for (const struct hook *hook = hook_table; hook->name; hook++)
        if (hook->mounts && asked(call, hook->name))
            return true;
    return false;
}

/* MAY_MOUNT: the process still has the privilege to mount, and gives it up before the first hook that needs none. */
static int run(const struct hook_call *call, const struct root *root, bool may_mount)
{
    int status = 0;

    for (const struct hook *hook = hook_table; hook->name; hook++) {
        struct fault fault = {0};
        if (!asked(call, hook->name))
            continue;
        if (may_mount && !hook->mounts) {
            may_mount = false;
            if (drop_privileges(for_files))
                return 1;
        }
        if (!hook->run(root, call, &fault))
            continue;
        report_fault(call, call->root ? "error" : "warning", hook->name, &fault);
        status = call->root ? 1 : 0;
    }
    return status;
}

int run_hooks(int argc, char *const argv[], int first, bool vendor)
{
    static struct hook_call call;
    struct root root;
    struct fault fault = {0};

    hide_process();
    call.vendor = vendor;
    if (hook_parse(argc, argv, first, &call, &fault)) {
        report_fault(&call, "error", call.name_count ? call.names[0] : "?", &fault);
        return 2;
    }
    warn_of_unknown(&call);
    int rc = open_target(&call, &root, &fault);
    if (rc == -ENOSYS && !call.root) {
        report_fault(&call, "warning", call.names[0], &fault); /* the kernel lacks openat2: nothing is written */
        return 0;
    }
    if (!rc) {
        rc = drop_privileges(mounts(&call) ? for_files | for_mounts : for_files);
        if (rc)
            fault_set(&fault, -rc, "cannot give up privileges");
    }
    if (rc) {
        report_fault(&call, "error", call.names[0], &fault);
        return 1;
    }
    int status = run(&call, &root, mounts(&call));
    root_close(&root);
    return status;
}
