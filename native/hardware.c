/*
 * May a config.json hold devices that create has not put there?
 *
 * Asked where grants are enforced. What counts as hardware, and to whom it is granted, is decided in Python
 * (shim/create/grants_hardware.py); here only what no container of an engine has by default is noticed:
 *
 *     an entry of linux.devices or linux.netDevices
 *     no device rule that denies all, so that the container may open any node that it can see or make
 *     behind the last such rule a rule that allows reading or writing, for other nodes than every container has
 *     a mount whose source is a device node
 *     an annotation by which the runtimes open devices, or a hook that gives devices
 *     a form that readers understand differently
 *
 * With a device cgroup a directory that is mounted opens no node, so directories are not looked at.
 */
#define _GNU_SOURCE
#include "hardware.h"
#include "jsontree.h"
#include "question.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Nodes that every container has (_COMMON and _TERMINALS in shim/create/grants_hardware.py; a test compares the two). */
static bool is_common(bool is_block, long major, long minor)
{
    if (is_block)
        return false;
    if (major == 1)
        return minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9;
    return (major == 5 && minor >= 0 && minor <= 2) || (major >= 136 && major <= 143);
}

/* Whether a member is missing, null, or a list or object with nothing in it. */
static bool is_empty(const struct json_tree *tree, uint32_t object, const char *name)
{
    uint32_t value = json_tree_member(tree, object, name);
    char kind = value ? json_tree_kind(tree, value) : 'n';
    return kind == 'n' || ((kind == '[' || kind == '{') && tree->values[value].count == 0);
}

/* Takes a number of a rule, -1 if it is missing or null: every number. False for other values. */
static bool take_number(const struct json_tree *tree, uint32_t rule, const char *name, long *number)
{
    uint32_t value = json_tree_member(tree, rule, name);
    char kind = value ? json_tree_kind(tree, value) : 'n';
    *number = -1;
    if (kind == 'n')
        return true;
    size_t size = tree->values[value].end - tree->values[value].start;
    if ((kind != '-' && (kind < '0' || kind > '9')) || size > 10)
        return false;
    *number = strtol(tree->text + tree->values[value].start, NULL, 10);
    return true;
}

/* Takes a short text of a rule, "" if it is missing. False for other values. */
static bool take_text(const struct json_tree *tree, uint32_t rule, const char *name, char text[8])
{
    size_t size = 0;
    uint32_t value = json_tree_member(tree, rule, name);
    const char *plain = value ? json_tree_plain(tree, value, &size) : "";
    if (!plain || size > 7)
        return false;
    memcpy(text, plain, size);
    text[size] = '\0';
    return true;
}

/*
 * Whether a rule of a list, behind the last that denies all, allows other nodes than every container has, or cannot be
 * told. is_denied: whether a rule denies all.
 */
static bool allows_more(const struct json_tree *tree, uint32_t list, bool *is_denied)
{
    bool is_allowed = false;
    *is_denied = false;
    for (uint32_t at = tree->values[list].first; at; at = tree->values[at].next) {
        char type[8], access[8];
        long major, minor;
        uint32_t allow = json_tree_member(tree, at, "allow");
        bool allows = allow && json_tree_kind(tree, allow) == 't';
        if (json_tree_kind(tree, at) != '{' || !take_text(tree, at, "type", type) ||
            !take_text(tree, at, "access", access) || !take_number(tree, at, "major", &major) ||
            !take_number(tree, at, "minor", &minor))
            return true;
        bool is_all = *type == '\0' || strcmp(type, "a") == 0;
        if (!allows) {
            bool whole = !*access || (strchr(access, 'r') && strchr(access, 'w') && strchr(access, 'm'));
            if (is_all && major == -1 && minor == -1 && whole) {
                *is_denied = true;
                is_allowed = false;
            }
        } else if (!*access || strchr(access, 'r') || strchr(access, 'w')) {
            bool is_usual = !is_all && is_common(strcmp(type, "c") != 0, major, minor);
            is_allowed = is_allowed || !is_usual;
        }
    }
    return is_allowed;
}

static bool allows_hardware(const struct json_tree *tree, uint32_t linux_)
{
    bool is_denied;
    uint32_t resources = json_tree_member(tree, linux_, "resources");
    uint32_t list = resources ? json_tree_member(tree, resources, "devices") : 0;
    if (!list || json_tree_kind(tree, list) != '[')
        return true;
    return allows_more(tree, list, &is_denied) || !is_denied;
}

/* As _ENTRIES in shim/create/grants_hardware.py, and the list of rules itself. */
static bool is_spelt(const struct json_tree *tree)
{
    static const char *const names[] = {"type", "major",  "minor",   "access", "allow",
                                        "path", "source", "options", "args",   "devices"};
    for (uint32_t i = 1; i < tree->count; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            const char *name = tree->text + tree->values[i].name;
            size_t size = tree->values[i].name_size;
            if (size == strlen(names[j]) && strncasecmp(name, names[j], size) == 0 && memcmp(name, names[j], size) != 0)
                return false;
        }
    return true;
}

bool resources_may_open(const struct json_tree *tree)
{
    bool is_denied;
    if (json_tree_kind(tree, 0) != '{' || !is_spelt(tree))
        return true;
    uint32_t list = json_tree_member(tree, 0, "devices");
    return list && json_tree_kind(tree, list) == '[' && allows_more(tree, list, &is_denied);
}

static bool is_bind(const struct json_tree *tree, uint32_t mount)
{
    uint32_t type = json_tree_member(tree, mount, "type"), options = json_tree_member(tree, mount, "options");
    if (type && json_tree_is(tree, type, "bind"))
        return true;
    if (!options || json_tree_kind(tree, options) != '[')
        return false;
    for (uint32_t at = tree->values[options].first; at; at = tree->values[at].next)
        if (json_tree_is(tree, at, "bind") || json_tree_is(tree, at, "rbind"))
            return true;
    return false;
}

/* Whether the source of a mount is a node, or cannot be told. */
static bool is_of_node(const struct json_tree *tree, uint32_t mount, const char *bundle)
{
    char path[2 * PATH_MAX];
    struct stat status;
    size_t size;
    uint32_t source = json_tree_member(tree, mount, "source");
    if (!source)
        return false;
    const char *text = json_tree_plain(tree, source, &size);
    if (!text || size >= PATH_MAX)
        return true;
    if (!memchr(text, '/', size) && !is_bind(tree, mount))
        return false;
    bool is_absolute = size && *text == '/';
    int length =
        snprintf(path, sizeof path, "%s%s%.*s", is_absolute ? "" : bundle, is_absolute ? "" : "/", (int)size, text);
    if (length < 0 || (size_t)length >= sizeof path)
        return true;
    if (stat(path, &status) != 0 || !(S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)))
        return false;
    return !is_common(S_ISBLK(status.st_mode), (long)major(status.st_rdev), (long)minor(status.st_rdev));
}

static bool mounts_node(const struct json_tree *tree, const char *bundle)
{
    uint32_t list = json_tree_member(tree, 0, "mounts");
    if (!list)
        return false;
    if (json_tree_kind(tree, list) != '[')
        return true;
    for (uint32_t at = tree->values[list].first; at; at = tree->values[at].next)
        if (json_tree_kind(tree, at) != '{' || is_of_node(tree, at, bundle))
            return true;
    return false;
}

/* Whether a word of a hook is a program that gives devices, or cannot be told: _HOOKS, _CLI in grants_hardware.py. */
static bool is_giver(const struct json_tree *tree, uint32_t word)
{
    static const char *const names[] = {"nvidia-container-runtime-hook", "nvidia-container-toolkit",
                                        "nvidia-container-cli"};
    size_t size = 0;
    const char *text = json_tree_plain(tree, word, &size);
    if (!text)
        return true;
    const char *slash = memrchr(text, '/', size);
    const char *name = slash ? slash + 1 : text;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == (size_t)(text + size - name) && memcmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_giving(const struct json_tree *tree, uint32_t hook)
{
    uint32_t path = json_tree_member(tree, hook, "path"), args = json_tree_member(tree, hook, "args");
    if (!path || is_giver(tree, path))
        return true;
    for (uint32_t at = args ? tree->values[args].first : 0; at; at = tree->values[at].next)
        if (is_giver(tree, at))
            return true;
    return false;
}

static bool has_giving_hook(const struct json_tree *tree)
{
    uint32_t hooks = json_tree_member(tree, 0, "hooks");
    if (!hooks || json_tree_kind(tree, hooks) == 'n')
        return false;
    if (json_tree_kind(tree, hooks) != '{')
        return true;
    for (uint32_t stage = tree->values[hooks].first; stage; stage = tree->values[stage].next)
        for (uint32_t hook = tree->values[stage].first; hook; hook = tree->values[hook].next)
            if (json_tree_kind(tree, stage) != '[' || is_giving(tree, hook))
                return true;
    return false;
}

/* As _ANNOTATIONS in shim/create/grants_hardware.py. */
static bool is_annotated(const struct json_tree *tree)
{
    static const char *const dangerous[] = {"org.systemd.property.Device", "krun.gpu_flags"};
    uint32_t annotations = json_tree_member(tree, 0, "annotations");
    if (!annotations)
        return false;
    if (json_tree_kind(tree, annotations) != '{')
        return json_tree_kind(tree, annotations) != 'n';
    for (uint32_t at = tree->values[annotations].first; at; at = tree->values[at].next)
        for (size_t i = 0; i < sizeof dangerous / sizeof *dangerous; i++) {
            size_t size = strlen(dangerous[i]);
            if (tree->values[at].name_size >= size &&
                memcmp(tree->text + tree->values[at].name, dangerous[i], size) == 0)
                return true;
        }
    return false;
}

bool may_have_hardware(const struct call *call, const char *text, size_t size)
{
    /* mapped, not static, for the reason in repeat.c; the process ends by an exec */
    struct json_tree *tree = mmap(NULL, sizeof *tree, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tree == MAP_FAILED)
        return true;
    bool has = true;
    if (json_tree_read(tree, text, size) == 0 && json_tree_kind(tree, 0) == '{' && question_is_spelt(tree) &&
        is_spelt(tree)) {
        uint32_t linux_ = json_tree_member(tree, 0, "linux");
        has = !linux_ || json_tree_kind(tree, linux_) != '{' || !is_empty(tree, linux_, "devices") ||
              !is_empty(tree, linux_, "netDevices") || allows_hardware(tree, linux_) || is_annotated(tree) ||
              has_giving_hook(tree) || mounts_node(tree, call->bundle ? call->bundle : ".");
    }
    munmap(tree, sizeof *tree);
    return has;
}
