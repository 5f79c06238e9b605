/*
 * `shim hook NAME...`: what runs while a container starts, one or several hooks in one process.
 *
 * The runtime starts us as root, next to an image that may be hostile, so: find the container's root by the state on
 * stdin, open it, give up all that is not needed, and only then look at the image. No environment variable is read. A hook
 * of a name that we do not know is passed over, as the vendor's program does, so that a newer spec works here.
 *
 * What goes wrong inside the container's tree is a warning: the container starts, perhaps with a library less to be found
 * by name. What goes wrong with us (no state, no root, a root that is the host's own) is an error. With --root, where a
 * person waits for the result, everything is an error.
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
    return fault_say(fault, EPERM, "modes inside a container are not changed by path; give the node's fileMode in the spec");
}

/* The hooks, in the order in which they run: first the one that mounts, so that the others do not have the right to, then
 * what makes files before what looks for them. */
static const struct {
    const char *name;
    int (*run)(const struct root *root, const struct hook_call *call, struct fault *fault);
} hooks[] = {
    {"disable-device-node-modification", hook_device_nodes},
    {"create-symlinks", hook_create_symlinks},
    {"enable-cuda-compat", hook_enable_cuda_compat},
    {"update-ldcache", hook_update_ldcache},
    {"update-application-profile", hook_application_profile},
    {"chmod", refuse_chmod},
};

enum { HOOKS = sizeof hooks / sizeof *hooks };

/* What it takes to read and write as the container's root, and what one hook needs for its one mount. */
static const uint64_t for_files =
    1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_FOWNER;
static const uint64_t for_mounts = 1ull << CAP_SYS_ADMIN;

/* ---- the command line ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

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
    for (int i = 2; i < argc; i++)  /* nobody but a person asks for help */
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return false;
    return true;
}

struct parser {
    struct hook_call *call;
    const char *value;      /* of --name=value, or the next word */
    bool joined;
};

static int add_word(const char **words, size_t *count, size_t room, const char *word)
{
    if (*count == room)
        return -E2BIG;
    words[(*count)++] = word;
    return 0;
}

/* Options with a value: 1 when one was taken, 0 for a name that is none of them. */
static int take_value(struct parser *parser, const char *name)
{
    struct hook_call *call = parser->call;
    const char *ignored = NULL;  /* the vendor's, without a meaning here: no ldconfig is run */
    const struct {
        const char *name;
        const char **to;
    } options[] = {{"root", &call->root}, {"container-spec", &call->state}, {"generator", &call->generator},
                   {"cuda-compat-container-root", &call->compat}, {"host-driver-version", &call->driver},
                   {"host-cuda-version", &call->cuda}, {"ldconfig-path", &ignored}, {"path", &ignored}, {"mode", &ignored},
                   {"folder", NULL}, {"link", NULL}};

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(options[i].name, name))
            continue;
        if (!parser->value)
            return -EINVAL;
        int rc = 0;
        if (options[i].to)
            *options[i].to = parser->value;
        else if (*name == 'f')
            rc = add_word(call->folders, &call->folder_count, HOOK_WORDS, parser->value);
        else
            rc = add_word(call->links, &call->link_count, HOOK_WORDS, parser->value);
        return rc ? rc : 1;
    }
    return 0;
}

static int take_flag(struct hook_call *call, const char *name)
{
    if (!strcmp(name, "settle"))
        call->settle = true;
    else if (!strcmp(name, "keep-links"))
        call->keep_links = true;
    else if (strcmp(name, "debug") && strcmp(name, "quiet") && strcmp(name, "d") && strcmp(name, "q"))
        return -ENOENT;
    return 0;
}

/* Reads one option, which begins at argv[*at]; an unknown one of the vendor's form is passed over with its value. */
static int take_option(struct hook_call *call, int argc, char *const argv[], int *at, struct fault *fault)
{
    char name[64];
    const char *word = argv[*at] + 1 + (argv[*at][1] == '-');
    size_t length = strcspn(word, "=");
    bool joined = word[length] == '=';
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    struct parser parser = {.call = call, .value = joined ? word + length + 1 : next, .joined = joined};

    if (length >= sizeof name)
        return fault_say(fault, EINVAL, "option %s is too long", argv[*at]);
    memcpy(name, word, length);
    name[length] = 0;
    int rc = take_value(&parser, name);
    if (rc < 0)
        return fault_say(fault, -rc, rc == -E2BIG ? "more than 512 times option %s" : "option %s needs a value", argv[*at]);
    if (rc > 0)
        *at += !joined;
    else if (take_flag(call, name)) {
        if (!call->vendor)
            return fault_say(fault, EINVAL, "unknown option %s", argv[*at]);
        call->passed_over = true;
        *at += !joined && next && *next != '-';
    }
    return 0;
}

int hook_parse(int argc, char *const argv[], int first, struct hook_call *call, struct fault *fault)
{
    for (int at = first; at < argc; at++) {
        int rc = 0;
        if (argv[at][0] == '-' && argv[at][1])
            rc = take_option(call, argc, argv, &at, fault);
        else if (add_word(call->names, &call->name_count, HOOK_NAMES, argv[at]))
            rc = fault_say(fault, E2BIG, "more than 16 hooks");
        if (rc)
            return rc;
    }
    return call->name_count ? 0 : fault_say(fault, EINVAL, "no hook is named");
}

/* ---- running ---- */

static void say(const char *level, const char *hook, const struct fault *fault)
{
    char line[512];

    snprintf(line, sizeof line, "shim: %s: hook %s: %s", level, hook, fault->text);
    report(NULL, NULL, line);
}

static bool asked(const struct hook_call *call, const char *name)
{
    for (size_t i = 0; i < call->name_count; i++)
        if (!strcmp(call->names[i], name))
            return true;
    return false;
}

static void name_unknown(const struct hook_call *call)
{
    for (size_t i = 0; i < call->name_count; i++) {
        bool known = false;
        for (size_t j = 0; j < HOOKS; j++)
            known |= !strcmp(hooks[j].name, call->names[i]);
        struct fault fault;
        if (!known) {
            fault_say(&fault, ENOSYS, "no hook of this name is known; it is passed over");
            say("warning", call->names[i], &fault);
        }
    }
}

int run_hook(const char *name, const struct root *root, const struct hook_call *call, struct fault *fault)
{
    for (size_t i = 0; i < HOOKS; i++)
        if (!strcmp(hooks[i].name, name))
            return cover_verdict(root, hooks[i].run(root, call, fault), fault);
    return fault_say(fault, ENOSYS, "no hook of this name is known");
}

static int open_target(struct hook_call *call, struct root *root, struct fault *fault)
{
    static struct hook_target target;

    if (call->root) {
        int length = snprintf(target.root, sizeof target.root, "%s/.", call->root);  /* a link to the root is good here */
        if (length >= (int)sizeof target.root)
            return fault_set(fault, ENAMETOOLONG, "--root");
        int rc = root_open(root, target.root, fault);
        root->sync = true;
        return rc;
    }
    int rc = hook_target_read(call, &target, fault);
    if (!rc)
        rc = root_open(root, target.root, fault);
    if (rc)
        return rc;
    hook_target_enter(&target, root);
    call->bundle = target.bundle;
    root->one_mount = true;
    if (target.uid)
        root->uid = (uid_t)target.uid;
    if (target.gid)
        root->gid = (gid_t)target.gid;
    root_limit(root, HOOK_DEADLINE);
    return 0;
}

static int run(const struct hook_call *call, const struct root *root)
{
    int status = 0;

    for (size_t i = 0; i < HOOKS; i++) {
        struct fault fault = {0};
        if (!asked(call, hooks[i].name))
            continue;
        int rc = hooks[i].run(root, call, &fault);
        if (hooks[i].run == hook_device_nodes && drop_privileges(for_files))
            return 1;
        if (!rc)
            continue;
        say(call->root ? "error" : "warning", hooks[i].name, &fault);
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
        say("error", call.name_count ? call.names[0] : "?", &fault);
        return 2;
    }
    name_unknown(&call);
    int rc = open_target(&call, &root, &fault);
    if (rc == -ENOSYS && !call.root) {
        say("warning", call.names[0], &fault);  /* this kernel gives us no safe way to write: nothing is written */
        return 0;
    }
    if (!rc) {
        rc = drop_privileges(asked(&call, "disable-device-node-modification") ? for_files | for_mounts : for_files);
        if (rc)
            fault_set(&fault, -rc, "cannot give up privileges");
    }
    if (rc) {
        say("error", call.names[0], &fault);
        return 1;
    }
    int status = run(&call, &root);
    root_close(&root);
    return status;
}
