/*
 * Puts the edits of an answer into the text of a config.json: bytes are inserted, and entries of `env` are replaced;
 * every other byte stays. As JSON the result is the same as that of Python's merge (shim/create/merge.py); if that
 * would do more than append, replace a variable or leave an existing item, the launcher leaves the create to Python.
 *
 * The edits are these fields, before each list the number of its items. An item exists in config.json already if an
 * entry has the same text, a hook if one has the same path and arguments; a create with similar entries is left to
 * Python.
 *
 *     env        NAME, entry
 *     devices    path, entry                   linux.devices
 *     rules      major, minor, entry           linux.resources.devices
 *     mounts     destination, entry
 *     hooks      stage, hooks of it: path, arguments, entry
 *     intelRdt   value, "" for none
 *     gids       number                        process.user.additionalGids
 */
#define _GNU_SOURCE
#include "splices.h"

#include <errno.h>

/* --- the kinds ---------------------------------------------------------------------------------------------------- */

static void set_variables(struct work *work)
{
    struct inserts *inserts = work->inserts;
    uint32_t process = edit_filled(work, 0, "process");
    unsigned left = field_count(&work->edits);
    uint32_t list = left ? edit_section(work, process, "env", '[') : 0;
    size_t from = inserts->used;
    for (; left && !work->error; left--) {
        struct span name = field(&work->edits), entry = field(&work->edits);
        uint32_t there = list ? edit_find_variable(work, list, name) : 0;
        struct variable *variable = &inserts->variables[inserts->variable_count];
        if (inserts->variable_count == sizeof inserts->variables / sizeof *variable) {
            edit_fail(work, -E2BIG);
            return;
        }
        inserts->variable_count++;
        *variable = (struct variable){
            name, {NULL, 0}
        };
        if (!there) {
            edit_add_entry(work, false, entry);
            continue;
        }
        const struct json_value *value = &work->tree->values[there];
        variable->before = (struct span){work->tree->text + value->start, value->end - value->start};
        if (edit_is_text(work->tree, there, entry)) {
            inserts->present++;
            continue;
        }
        inserts->added++;
        edit_splice(work, value->start, value->end - value->start, entry.text, entry.size);
    }
    edit_append(work, process, list, ",\"env\":[", "]", from);
}

static void add_devices(struct work *work, uint32_t linux_)
{
    unsigned left = field_count(&work->edits);
    uint32_t list = left ? edit_section(work, linux_, "devices", '[') : 0;
    size_t from = work->inserts->used;
    for (; left && !work->error; left--) {
        struct span path = field(&work->edits), entry = field(&work->edits);
        bool is_there = false;
        for (uint32_t at = list ? work->tree->values[list].first : 0; at && !work->error;
             at = work->tree->values[at].next) {
            if (!span_is_same(edit_path(work, at, "path"), path))
                continue;
            if (is_there || !edit_is_text(work->tree, at, entry))
                edit_fail(work, -ENOTSUP);
            is_there = true;
        }
        edit_add_entry(work, is_there, entry);
    }
    edit_append(work, linux_, list, ",\"devices\":[", "]", from);
}

static void add_rules(struct work *work, uint32_t linux_)
{
    unsigned left = field_count(&work->edits);
    uint32_t resources = left ? edit_section(work, linux_, "resources", '{') : 0;
    uint32_t list = resources ? edit_section(work, resources, "devices", '[') : 0;
    uint32_t first = list ? edit_first_rule(work, list) : 0;
    size_t from = work->inserts->used;
    for (; left && !work->error; left--) {
        struct span major = field(&work->edits), minor = field(&work->edits), entry = field(&work->edits);
        edit_add_entry(work, edit_has_rule(work, first, major, minor, entry), entry);
    }
    if (resources)
        edit_append(work, resources, list, ",\"devices\":[", "]", from);
    else
        edit_append(work, linux_, 0, ",\"resources\":{\"devices\":[", "]}", from);
}

/* A mount is appended to the list; if another mount would cover it, or be covered, the create is left to Python. */
static void add_mounts(struct work *work)
{
    unsigned left = field_count(&work->edits);
    uint32_t list = left ? edit_section(work, 0, "mounts", '[') : 0;
    size_t from = work->inserts->used;
    for (; left && !work->error; left--) {
        struct span destination = field(&work->edits), entry = field(&work->edits);
        bool is_there = false;
        for (uint32_t at = list ? work->tree->values[list].first : 0; at && !work->error;
             at = work->tree->values[at].next) {
            struct span other = edit_path(work, at, "destination");
            if (span_is_below(other, destination) ||
                (span_is_same(other, destination) && (is_there || !edit_is_text(work->tree, at, entry))))
                edit_fail(work, -ENOTSUP);
            is_there = is_there || span_is_same(other, destination);
        }
        edit_add_entry(work, is_there, entry);
    }
    edit_append(work, 0, list, ",\"mounts\":[", "]", from);
}

static bool is_hook_there(struct work *work, uint32_t list, struct span path, struct span args)
{
    bool is_there = false;
    for (uint32_t at = list ? work->tree->values[list].first : 0; at && !work->error;
         at = work->tree->values[at].next) {
        if (!span_is_same(edit_path(work, at, "path"), path))
            continue;
        uint32_t its_args = json_tree_member(work->tree, at, "args");
        if (!its_args || !edit_is_text(work->tree, its_args, args))
            edit_fail(work, -ENOTSUP);
        is_there = true;
    }
    return is_there;
}

/* Appends the hooks of a stage, collected since `from`; if the stage has no list, it is added to the section. */
static void append_stage(struct work *work, uint32_t hooks, uint32_t list, struct span stage, size_t from)
{
    struct inserts *inserts = work->inserts;
    size_t start = inserts->used;
    if (work->error || start == from)
        return;
    if (list) {
        edit_insert(work, list, from);
        return;
    }
    if (hooks && !work->tree->values[hooks].count)
        edit_fail(work, -ENOTSUP); /* no engine writes an empty section */
    edit_put_text(work, ",\"");
    edit_put(work, stage.text, stage.size);
    edit_put_text(work, "\":[");
    edit_put(work, inserts->text + from + 1, start - from - 1);
    edit_put_text(work, "]");
    if (hooks && !work->error)
        edit_insert(work, hooks, start);
}

static void add_hooks(struct work *work)
{
    struct inserts *inserts = work->inserts;
    unsigned stages = field_count(&work->edits);
    uint32_t hooks = stages ? edit_section(work, 0, "hooks", '{') : 0;
    struct span entries[16]; /* the stages of a new section, each with a comma before it */
    unsigned entry_count = 0;
    for (; stages && !work->error; stages--) {
        char name[32];
        struct span stage = field(&work->edits);
        if (stage.size >= sizeof name) {
            edit_fail(work, -EINVAL);
            return;
        }
        memcpy(name, stage.text, stage.size);
        name[stage.size] = '\0';
        uint32_t list = hooks ? edit_section(work, hooks, name, '[') : 0;
        size_t from = inserts->used;
        for (unsigned left = field_count(&work->edits); left && !work->error; left--) {
            struct span path = field(&work->edits), args = field(&work->edits);
            bool is_there = is_hook_there(work, list, path, args);
            edit_add_entry(work, is_there, field(&work->edits));
        }
        size_t start = inserts->used;
        append_stage(work, hooks, list, stage, from);
        if (!hooks && inserts->used > start) {
            if (entry_count == sizeof entries / sizeof *entries) {
                edit_fail(work, -E2BIG);
                return;
            }
            entries[entry_count++] = (struct span){inserts->text + start, inserts->used - start};
        }
    }
    size_t start = inserts->used;
    edit_put_text(work, ",\"hooks\":{");
    for (unsigned i = 0; i < entry_count; i++)
        edit_put(work, entries[i].text + (i == 0), entries[i].size - (i == 0));
    edit_put_text(work, "}");
    if (entry_count && !work->error)
        edit_insert(work, 0, start);
}

static void set_intel_rdt(struct work *work, uint32_t linux_)
{
    struct span value = field(&work->edits);
    size_t start = work->inserts->used;
    if (!value.size)
        return;
    if (json_tree_member(work->tree, linux_, "intelRdt")) {
        edit_fail(work, -ENOTSUP);
        return;
    }
    edit_put_text(work, ",\"intelRdt\":");
    edit_put(work, value.text, value.size);
    work->inserts->added++;
    if (!work->error)
        edit_insert(work, linux_, start);
}

static void add_gids(struct work *work)
{
    unsigned left = field_count(&work->edits);
    uint32_t process = edit_filled(work, 0, "process");
    uint32_t user = left ? edit_filled(work, process, "user") : 0;
    uint32_t list = left && user ? edit_section(work, user, "additionalGids", '[') : 0;
    size_t from = work->inserts->used;
    for (; left && !work->error; left--) {
        struct span gid = field(&work->edits);
        bool is_there = false;
        for (uint32_t at = list ? work->tree->values[list].first : 0; at; at = work->tree->values[at].next)
            is_there = is_there || edit_is_text(work->tree, at, gid);
        edit_add_entry(work, is_there, gid);
    }
    edit_append(work, user, list, ",\"additionalGids\":[", "]", from);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

int insert_edits(struct inserts *inserts, const struct json_tree *tree, const struct answer *answer)
{
    struct work work = {.inserts = inserts, .tree = tree, .edits = answer->edits};
    inserts->count = inserts->variable_count = inserts->added = inserts->present = 0;
    inserts->used = 0;
    if (json_tree_kind(tree, 0) != '{' || !tree->values[0].count)
        return -ENOTSUP;
    uint32_t linux_ = edit_filled(&work, 0, "linux");
    if (work.error)
        return work.error;
    set_variables(&work);
    add_devices(&work, linux_);
    add_rules(&work, linux_);
    add_mounts(&work);
    add_hooks(&work);
    set_intel_rdt(&work, linux_);
    add_gids(&work);
    if (!work.error && !fields_done(&work.edits))
        return -EINVAL;
    if (work.error)
        return work.error;
    edit_sort(inserts);
    return inserts->added ? 1 : 0;
}
