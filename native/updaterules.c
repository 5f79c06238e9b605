/*
 * update: an engine gives new limits as a whole `linux.resources`, whose list of device rules does not have those of
 * the container's devices. They are added here, from the record, which holds them as entries. A kubelet with static
 * processors updates every container of a node at once, so this needs no Python if everything is as usual; anything
 * unusual is left to shim/create/update_rules.py, which has all the rules.
 */
#define _GNU_SOURCE
#include "updaterules.h"
#include "hardware.h"
#include "ownfiles.h"
#include "record.h"
#include "splices.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

enum { MAX_FILE = 1 << 20 };

/* Mapped, as in repeat.c. */
struct memory {
    struct record record;
    struct json_tree resources;
    struct inserts inserts;
    char text[MAX_FILE + 1]; /* of the resources */
};

/* --- the edit ----------------------------------------------------------------------------------------------------- */

static struct span text_of(const struct json_tree *tree, uint32_t value)
{
    return (struct span){tree->text + tree->values[value].start, tree->values[value].end - tree->values[value].start};
}

/* Adds a rule of the record, if the list does not have it among those from `first` on, the ones that count. */
static void add_rule(struct work *work, const struct json_tree *record, uint32_t rule, uint32_t first)
{
    uint32_t major = json_tree_member(record, rule, "major"), minor = json_tree_member(record, rule, "minor");
    if (!major || !minor) {
        edit_fail(work, -ENOTSUP);
        return;
    }
    bool is_there = edit_has_rule(work, first, text_of(record, major), text_of(record, minor), text_of(record, rule));
    edit_add_entry(work, is_there, text_of(record, rule));
}

/* Collects the inserts for the resources, of `size` bytes; 0, or the error of what is unusual. */
static int add_rules(struct memory *memory, uint32_t rules, size_t size)
{
    struct work work = {.inserts = &memory->inserts, .tree = &memory->resources};
    const struct json_tree *record = &memory->record.tree;
    if (json_tree_read(&memory->resources, memory->text, size) != 0 || json_tree_kind(&memory->resources, 0) != '{')
        return -ENOTSUP;
    uint32_t list = edit_section(&work, 0, "devices", '[');
    if (work.error || !list || !memory->resources.values[list].count)
        return work.error; /* without a list of rules they stay as they are: crun leaves the rules alone then */
    uint32_t first = edit_first_rule(&work, list);
    size_t from = work.inserts->used;
    for (uint32_t at = record->values[rules].first; at && !work.error; at = record->values[at].next)
        add_rule(&work, record, at, first);
    if (!work.error && work.inserts->used > from)
        edit_insert(&work, list, from);
    return work.error;
}

/* --- a file ------------------------------------------------------------------------------------------------------- */

static bool complete_file(struct memory *memory, const char *path, uint32_t rules)
{
    struct stat status, written;
    size_t size;
    if (!read_engine_file(path, memory->text, MAX_FILE, &status, &size) || add_rules(memory, rules, size) != 0)
        return false;
    struct edited edited = {&memory->inserts, &memory->resources, size, &status};
    return !memory->inserts.count || replace_edited(path, &edited, &written);
}

/* --- standard input ----------------------------------------------------------------------------------------------- */

/* Reads at most `room` bytes; fewer only at the end, which an error is, too. Returns how many. */
static size_t read_input(char *text, size_t room)
{
    size_t size = 0;
    for (ssize_t part; size < room; size += (size_t)part) {
        part = read(STDIN_FILENO, text + size, room - size);
        if (part <= 0)
            break;
    }
    return size;
}

/* Writes what was read, and the rest of standard input, into the file that takes its place. */
static void copy_input(struct memory *memory, int file, size_t size)
{
    while (size && write_all(file, memory->text, size))
        size = read_input(memory->text, MAX_FILE);
}

/* The file in memory is made first: what was read must not be lost. */
static bool complete_input(struct memory *memory, uint32_t rules)
{
    cleanup_fd int file = memfd_create("resources", MFD_CLOEXEC);
    if (file < 0)
        return false;
    size_t size = read_input(memory->text, MAX_FILE);
    bool is_done = size < MAX_FILE && add_rules(memory, rules, size) == 0;
    if (is_done && memory->inserts.count) {
        struct edited edited = {&memory->inserts, &memory->resources, size, NULL};
        is_done = write_edited(file, &edited);
    } else {
        copy_input(memory, file, size);
    }
    return lseek(file, 0, SEEK_SET) == 0 && dup2(file, STDIN_FILENO) >= 0 && is_done;
}

/* --- grants ------------------------------------------------------------------------------------------------------- */

bool update_may_open(const char *resources)
{
    struct memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct stat status;
    size_t size = 0;
    if (memory == MAP_FAILED)
        return true;
    bool is_read;
    if (strcmp(resources, "-") == 0) {
        cleanup_fd int file = memfd_create("resources", MFD_CLOEXEC);
        if (file < 0)
            return true;
        size = read_input(memory->text, MAX_FILE);
        is_read = size < MAX_FILE;
        memory->text[size] = '\0';
        copy_input(memory, file, size);
        is_read = lseek(file, 0, SEEK_SET) == 0 && dup2(file, STDIN_FILENO) >= 0 && is_read;
    } else {
        is_read = read_engine_file(resources, memory->text, MAX_FILE, &status, &size);
    }
    bool may = !is_read || json_tree_read(&memory->resources, memory->text, size) != 0 ||
               resources_may_open(&memory->resources);
    munmap(memory, sizeof *memory);
    return may;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

bool complete_update(const struct call *call, const char *name, const char *record)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    struct memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !call->resources || !record_read(&memory->record, call, name, record))
        return false;
    uint32_t rules = json_tree_member(&memory->record.tree, 0, "rules");
    if (!rules || json_tree_kind(&memory->record.tree, rules) != '[')
        return false; /* a record of an earlier version */
    if (!memory->record.tree.values[rules].count)
        return true;
    /* exceeding the file size limit must be an error of write(2), not a signal */
    bool is_held = sigaction(SIGXFSZ, &ignored, &before) == 0;
    bool is_done = strcmp(call->resources, "-") == 0 ? complete_input(memory, rules)
                                                     : complete_file(memory, call->resources, rules);
    if (is_held)
        sigaction(SIGXFSZ, &before, NULL);
    return is_done;
}
