/*
 * The question of a create, as far as the launcher understands it. A decision of Python is repeated for the same
 * question (answer.c), so the text of a question has everything that a decision depends on, except what the answer
 * itself lists: the state of files, and entries of config.json with which new entries would collide (insert.c).
 *
 *     the verb; the launcher's name, --root; the low-level runtime and this build of shim, each as a file
 *     $SHIM_CONFIG; path of the calling podman, if any; uid and gid of the process; whether the root is read-only
 *     the requested names, in their order; whether config.json was searched for other devices (hardware.c)
 *
 * The key of an annotation is not among them: a device plugin uses a new one for each allocation.
 *
 * The rules for names, user namespaces and origins are in Python (shim/create/recipe.py and the modules that it calls).
 * Only cases that are certain without these rules are handled here; for a config.json that Python could understand
 * differently the result is -ENOTSUP: any process but the host's root, CRI-O, sandboxes, user namespaces, other
 * readings of a name, keys that are near to a request.
 */
#define _GNU_SOURCE
#include "question.h"
#include "places.h"
#include "python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PREFIX "cdi.k8s.io/"
#define PODMAN "io.container.manager"

/* shim/create/question.py has them with their levels (MEMBERS); a test compares the two. */
const char *const question_members[] = {
    "annotations",
    "process",
    "env",
    "cwd",
    "user",
    "uid",
    "gid",
    "root",
    "path",
    "readonly",
    "mounts",
    "linux",
    "devices",
    "resources",
    "namespaces",
    "netDevices",
    "intelRdt",
    "uidMappings",
    "gidMappings",
    "mountLabel",
    "cgroupsPath",
    "hooks",
    "prestart",
    "createRuntime",
    "poststart",
    "poststop",
    "bounding",
    "effective",
    "capabilities",
    "createContainer",
    "startContainer",
    "additionalGids",
    NULL,
};

/* --- the text ----------------------------------------------------------------------------------------------------- */

/* Adds a line, which must be plain. False if it is not, or does not fit. */
__attribute__((format(printf, 2, 3))) static bool add_line(struct question *question, const char *form, ...)
{
    size_t used = strlen(question->text), room = sizeof question->text - used;
    va_list arguments;
    va_start(arguments, form);
    int size = vsnprintf(question->text + used, room, form, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size + 2 > room || !is_plain(question->text + used, (size_t)size))
        return false;
    memcpy(question->text + used + size, "\n", 2);
    return true;
}

static bool add_file(struct question *question, const char *what, const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           add_line(question, "%s %s %ju %ju %jd.%09ld", what, path, (uintmax_t)status.st_dev, (uintmax_t)status.st_ino,
                    (intmax_t)status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

/* --- config.json -------------------------------------------------------------------------------------------------- */

/* Whether a name differs from a name of question_members only by the case of letters: readers may take it for that. */
static bool is_misspelt(const char *name, size_t size)
{
    for (const char *const *member = question_members; *member; member++)
        if (strlen(*member) == size && strncasecmp(*member, name, size) == 0)
            return memcmp(*member, name, size) != 0;
    return false;
}

bool question_is_spelt(const struct json_tree *tree)
{
    for (uint32_t i = 1; i < tree->count; i++)
        if (is_misspelt(tree->text + tree->values[i].name, tree->values[i].name_size))
            return false;
    return true;
}

/* Whether a member is missing or null. */
static bool is_absent(const struct json_tree *tree, uint32_t object, const char *name)
{
    uint32_t value = json_tree_member(tree, object, name);
    return !value || json_tree_kind(tree, value) == 'n';
}

/* Takes a user's or group's id, 0 if it is missing. False for other values. */
static bool take_id(const struct json_tree *tree, uint32_t user, const char *name, unsigned long *id)
{
    uint32_t value = user ? json_tree_member(tree, user, name) : 0;
    const char *text = tree->text + tree->values[value].start;
    *id = 0;
    if (!value)
        return true;
    if (*text < '0' || *text > '9' || tree->values[value].end - tree->values[value].start > 10)
        return false;
    *id = strtoul(text, NULL, 10);
    return true;
}

/* The working directory must be one to which no rule about /proc applies. */
static bool is_usual_cwd(const struct json_tree *tree, uint32_t process)
{
    size_t size = 0;
    uint32_t value = json_tree_member(tree, process, "cwd");
    const char *text = value ? json_tree_plain(tree, value, &size) : "";
    return text && !memmem(text, size, "..", 2) && !memmem(text, size, "proc", 4);
}

/* Whether there is no user namespace; with one, Python adapts the edits. */
static bool is_without_users(const struct json_tree *tree, uint32_t linux_)
{
    uint32_t list = json_tree_member(tree, linux_, "namespaces");
    if (!is_absent(tree, linux_, "uidMappings") || !is_absent(tree, linux_, "gidMappings"))
        return false;
    if (!list)
        return true;
    if (json_tree_kind(tree, list) != '[')
        return false;
    for (uint32_t at = tree->values[list].first; at; at = tree->values[at].next) {
        size_t size;
        uint32_t type = json_tree_member(tree, at, "type");
        if (!type || !json_tree_plain(tree, type, &size) || json_tree_is(tree, type, "user"))
            return false;
    }
    return true;
}

/* Whether the file system of the container's root is read-only; false if that cannot be determined. */
static bool is_read_only(const struct call *call, const char *path, size_t size)
{
    char whole[2 * PATH_MAX];
    struct statvfs status;
    const char *bundle = call->bundle ? call->bundle : ".";
    bool is_absolute = *path == '/';
    snprintf(whole, sizeof whole, "%s%s%.*s", is_absolute ? "" : bundle, is_absolute ? "" : "/", (int)size, path);
    return statvfs(whole, &status) == 0 && status.f_flag & ST_RDONLY;
}

static bool add_process(struct question *question, const struct json_tree *tree, const struct call *call)
{
    unsigned long uid, gid;
    uint32_t process = json_tree_member(tree, 0, "process"), root = json_tree_member(tree, 0, "root");
    uint32_t linux_ = json_tree_member(tree, 0, "linux");
    if (!process || json_tree_kind(tree, process) != '{' || !root || json_tree_kind(tree, root) != '{' || !linux_ ||
        json_tree_kind(tree, linux_) != '{')
        return false;
    uint32_t user = json_tree_member(tree, process, "user"), path = json_tree_member(tree, root, "path");
    uint32_t readonly = json_tree_member(tree, root, "readonly");
    size_t size;
    if (!is_usual_cwd(tree, process) || !is_without_users(tree, linux_) ||
        (user && json_tree_kind(tree, user) != '{') || !take_id(tree, user, "uid", &uid) ||
        !take_id(tree, user, "gid", &gid))
        return false;
    const char *path_text = path ? json_tree_plain(tree, path, &size) : NULL;
    if (!path_text || !size)
        return false;
    char kind = readonly ? json_tree_kind(tree, readonly) : 'f';
    if (kind == 'f' && is_read_only(call, path_text, size))
        kind = 't';
    return (kind == 't' || kind == 'f') && add_line(question, "process %lu:%lu", uid, gid) &&
           add_line(question, "readonly %c", kind);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static bool is_equal(struct span first, struct span second)
{
    return first.size == second.size && memcmp(first.text, second.text, first.size) == 0;
}

/* Adds a name, unless it was added before. False if it is not plainly a qualified name. */
static bool add_name(struct question *question, struct span name, struct span key)
{
    if (!name.size || name.size > MAX_REQUEST || !is_plain(name.text, name.size) ||
        !memchr(name.text, '/', name.size) || !memchr(name.text, '=', name.size) || memchr(name.text, ' ', name.size))
        return false;
    for (unsigned i = 0; i < question->count; i++)
        if (is_equal(question->requests[i].name, name))
            return true;
    if (question->count == MAX_REQUESTS)
        return false;
    question->requests[question->count++] = (struct request){name, key};
    return true;
}

static bool add_names(struct question *question, const struct json_tree *tree, const struct json_value *annotation)
{
    struct span key = {tree->text + annotation->name, annotation->name_size};
    size_t size;
    const char *text = json_tree_plain(tree, (uint32_t)(annotation - tree->values), &size);
    if (!text)
        return false;
    for (const char *end = text + size;; text++) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma ? comma : end;
        if (!add_name(question, (struct span){text, (size_t)(stop - text)}, key))
            return false;
        if (!comma)
            return true;
        text = stop;
    }
}

static int compare_keys(const void *first, const void *second, void *text)
{
    const struct json_value *const *left = first, *const *right = second;
    size_t size = (*left)->name_size < (*right)->name_size ? (*left)->name_size : (*right)->name_size;
    int order = memcmp((char *)text + (*left)->name, (char *)text + (*right)->name, size);
    return order ? order : (int)(*left)->name_size - (int)(*right)->name_size;
}

/* Whether an annotation that is not a request has the vendor of a requested name: then Python may warn. */
static bool is_near(const struct question *question, struct span name)
{
    for (unsigned i = 0; i < question->count; i++) {
        struct span asked = question->requests[i].name;
        size_t vendor = (size_t)((const char *)memchr(asked.text, '/', asked.size) - asked.text) + 1;
        if (name.size >= vendor && memcmp(name.text, asked.text, vendor) == 0)
            return true;
    }
    return false;
}

/*
 * Collects the requests of the annotations, by key. False if it is not certain that they count, and that no others do.
 * *by_podman: podman has written the config.json.
 */
static bool add_annotations(struct question *question, const struct json_tree *tree, bool *by_podman)
{
    const struct json_value *asking[MAX_REQUESTS];
    const size_t prefix = sizeof PREFIX - 1;
    unsigned count = 0;
    uint32_t annotations = json_tree_member(tree, 0, "annotations");
    *by_podman = false;
    if (!annotations)
        return true;
    if (json_tree_kind(tree, annotations) != '{')
        return false;
    for (uint32_t at = tree->values[annotations].first; at; at = tree->values[at].next) {
        const struct json_value *value = &tree->values[at];
        const char *name = tree->text + value->name;
        if (*name == ' ') /* such as ` cdi.k8s.io/x` */
            return false;
        if (value->name_size >= prefix && memcmp(name, PREFIX, prefix) == 0) {
            /* a slash behind the prefix: nerdctl 2 copies such labels of an image */
            if (count == MAX_REQUESTS || memchr(name + prefix, '/', value->name_size - prefix))
                return false;
            asking[count++] = value;
        } else if (value->name_size >= prefix - 1 && strncasecmp(name, PREFIX, prefix - 1) == 0)
            return false; /* such as CDI.k8s.io/x, or cdi.k8s.io=x */
        if (json_tree_is(tree, at, "sandbox"))
            return false;
        *by_podman =
            *by_podman || (value->name_size == sizeof PODMAN - 1 && memcmp(name, PODMAN, sizeof PODMAN - 1) == 0);
    }
    qsort_r(asking, count, sizeof *asking, compare_keys, (void *)tree->text);
    for (unsigned i = 0; i < count; i++)
        if (!add_names(question, tree, asking[i]))
            return false;
    for (uint32_t at = tree->values[annotations].first; at; at = tree->values[at].next) {
        const struct json_value *value = &tree->values[at];
        struct span name = {tree->text + value->name, value->name_size};
        if (!(name.size >= prefix && memcmp(name.text, PREFIX, prefix) == 0) && is_near(question, name))
            return false;
    }
    return true;
}

/*
 * Adds the path of the podman that started this process, from conmon's command line: the word after the first
 * `--exit-command` (shim/create/podman_caller.py reads the same). The answer has a probe for the file at that path.
 */
static bool add_podman(struct question *question)
{
    static char words[(64 << 10) + 1];
    char path[sizeof "/proc//cmdline" + 16];
    static const char option[] = "--exit-command";
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)getppid());
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t part; size < sizeof words - 1; size += (size_t)part) {
        part = read(fd, words + size, sizeof words - 1 - size);
        if (part < 0)
            return false;
        if (part == 0)
            break;
    }
    words[size] = '\0';
    for (const char *word = words; word < words + size; word += strlen(word) + 1)
        if (strcmp(word, option) == 0) {
            const char *program = word + sizeof option;
            return program < words + size && *program == '/' && add_line(question, "podman %s", program);
        }
    return false;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* `run --device` keeps the former config.json (shim/create/original.py). */
static bool is_usual_call(const struct call *call)
{
    return call->injects && !(call->devices && strcmp(call->verb, "run") == 0) && !call->unknown &&
           (strcmp(call->verb, "create") == 0 || strcmp(call->verb, "run") == 0) && call->id && *call->id &&
           is_plain(call->id, strlen(call->id)) && (!call->root || *call->root == '/') &&
           (!call->bundle || is_plain(call->bundle, strlen(call->bundle))) &&
           (!call->config || is_plain(call->config, strlen(call->config)));
}

int question_read(struct question *question, const struct json_tree *tree, const struct call *call,
                  char *const devices[], const char *name)
{
    const char *configuration = getenv("SHIM_CONFIG"), *crio = getenv("CRI_O_EXTERNAL");
    bool by_podman;
    question->text[0] = '\0';
    question->count = 0;
    if (!is_usual_call(call) || !is_rootful() || (crio && strcmp(crio, "1") == 0) || json_tree_kind(tree, 0) != '{' ||
        !question_is_spelt(tree))
        return -ENOTSUP;
    for (int i = 0; i < call->devices; i++)
        if (!add_name(question, (struct span){devices[i], strlen(devices[i])}, (struct span){0}))
            return -ENOTSUP;
    if (!add_line(question, "verb %s", call->verb) || !add_line(question, "name %s", name) ||
        !add_line(question, "root %s", call->root ? call->root : "") ||
        !add_line(question, "config %s", configuration ? configuration : "") || !add_process(question, tree, call) ||
        !add_annotations(question, tree, &by_podman) || (by_podman && !add_podman(question)) || !question->count)
        return -ENOTSUP;
    for (unsigned i = 0; i < question->count; i++)
        if (!add_line(question, "device %.*s", (int)question->requests[i].name.size, question->requests[i].name.text))
            return -ENOTSUP;
    return 0;
}

bool question_add_judged(struct question *question)
{
    return add_line(question, "judged");
}

int question_add_programs(struct question *question, const char *low, const char *launcher)
{
    char launch[PYTHON_PATH], hot[PYTHON_PATH];
    bool is_installed = python_files(launcher, launch, hot);
    if (!add_file(question, "low", low) || !add_file(question, "self", launcher) || !add_file(question, "hot", hot) ||
        (is_installed && !add_file(question, "launch", launch)))
        return -ENOTSUP;
    return 0;
}
