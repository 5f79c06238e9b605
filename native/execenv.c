/*
 * exec: an engine describes what to run in a file, with the environment from records of its own. A variable of the container's
 * devices is set there where it is absent, or still has the value that it had before us. Probes run exec once a second for
 * the whole life of a container, so this is done without Python where everything is as usual; whatever is not is left to
 * shim/create/exec_env.py, which has the rules in full: a config.json that an engine has saved again, a text that two readers
 * could understand differently, a value with escapes.
 */
#define _GNU_SOURCE
#include "execenv.h"
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
    struct json_tree process;
    struct inserts inserts;
    char text[MAX_FILE + 1]; /* of the process file */
};

/* --- the variables ------------------------------------------------------------------------------------------------ */

/* Reads the process file, of `size` bytes; whether it is an object with members. */
static bool is_process(struct memory *memory, size_t size)
{
    return json_tree_read(&memory->process, memory->text, size) == 0 && json_tree_kind(&memory->process, 0) == '{' &&
           memory->process.values[0].count;
}

/* A variable of the record: its name, and its value, new and before us, as the inside of a string of JSON. */
struct change {
    struct span name, new, old; /* old: NULL where it was absent */
};

/* Reads a variable: [new value, value before us or null]. What needs escapes is left to Python. */
static struct change read_change(struct work *work, const struct json_tree *record, uint32_t index)
{
    const struct json_value *pair = &record->values[index];
    struct change change = {
        .name = {record->text + pair->name, pair->name_size}
    };
    uint32_t new = pair->first, old = new ? record->values[new].next : 0;
    change.new.text = new ? json_tree_plain(record, new, &change.new.size) : NULL;
    if (old && json_tree_kind(record, old) != 'n')
        change.old.text = json_tree_plain(record, old, &change.old.size);
    bool is_read = change.new.text && old && (change.old.text || json_tree_kind(record, old) == 'n');
    if (!is_read || pair->count != 2 || memchr(change.name.text, '=', change.name.size))
        edit_fail(work, -ENOTSUP);
    return change;
}

/* Puts `"NAME=VALUE"` behind what is being put together. */
static struct span put_entry(struct work *work, const struct change *change)
{
    size_t start = work->inserts->used;
    edit_put_text(work, "\"");
    edit_put(work, change->name.text, change->name.size);
    edit_put_text(work, "=");
    edit_put(work, change->new.text, change->new.size);
    edit_put_text(work, "\"");
    return (struct span){work->inserts->text + start, work->inserts->used - start};
}

/* Replaces the entry of a variable that still has the value before us; another one is the user's. */
static void replace_entry(struct work *work, const struct change *change, uint32_t there)
{
    const struct json_value *value = &work->tree->values[there];
    size_t size = 0;
    const char *given = json_tree_plain(work->tree, there, &size);
    if (!given) {
        edit_fail(work, -ENOTSUP);
        return;
    }
    if (!change->old.text || size != change->name.size + 1 + change->old.size ||
        memcmp(given + change->name.size + 1, change->old.text, change->old.size) != 0)
        return;
    struct span entry = put_entry(work, change);
    if (!work->error)
        edit_splice(work, value->start, value->end - value->start, entry.text, entry.size);
}

/* Collects the inserts; 0, or the error of what is unusual. */
static int set_variables(struct memory *memory, uint32_t variables)
{
    const struct json_tree *record = &memory->record.tree;
    struct work work = {.inserts = &memory->inserts, .tree = &memory->process};
    uint32_t list = edit_section(&work, 0, "env", '[');
    uint32_t first = record->values[variables].first;
    for (uint32_t at = first; at && list && !work.error; at = record->values[at].next) {
        struct change change = read_change(&work, record, at);
        uint32_t there = work.error ? 0 : edit_find_variable(&work, list, change.name);
        if (there && !work.error)
            replace_entry(&work, &change, there);
    }
    size_t from = memory->inserts.used; /* those that are absent follow each other at the end */
    for (uint32_t at = first; at && !work.error; at = record->values[at].next) {
        struct change change = read_change(&work, record, at);
        if (work.error || (list && edit_find_variable(&work, list, change.name)))
            continue;
        edit_put_text(&work, ",");
        put_entry(&work, &change);
    }
    edit_append(&work, 0, list, ",\"env\":[", "]", from);
    if (!work.error)
        edit_sort(&memory->inserts);
    return work.error;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

bool complete_exec(const struct call *call, const char *name, const char *record)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    struct stat status, written;
    size_t size;
    struct memory *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !call->process || !record_read(&memory->record, call, name, record))
        return false;
    uint32_t variables = json_tree_member(&memory->record.tree, 0, "env");
    if (!variables || json_tree_kind(&memory->record.tree, variables) != '{')
        return false;
    if (!memory->record.tree.values[variables].count)
        return true;
    if (!read_engine_file(call->process, memory->text, MAX_FILE, &status, &size) || !is_process(memory, size) ||
        set_variables(memory, variables) != 0)
        return false;
    if (!memory->inserts.count)
        return true;
    struct edited edited = {&memory->inserts, &memory->process, size, &status};
    /* a file that grows over a limit of this process is an error like others */
    bool is_held = sigaction(SIGXFSZ, &ignored, &before) == 0;
    bool is_done = replace_edited(call->process, &edited, &written);
    if (is_held)
        sigaction(SIGXFSZ, &before, NULL);
    return is_done;
}
