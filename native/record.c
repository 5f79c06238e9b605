/*
 * The record of a container: what its create has injected. It counts here only while config.json is the very file that
 * the create wrote; if an engine has saved it again, Python compares the content (shim/create/record_reader.py).
 */
#define _GNU_SOURCE
#include "record.h"
#include "ownfiles.h"
#include "splices.h"

#include <limits.h>
#include <stdio.h>

static bool is_member(const struct json_tree *tree, const char *name, const char *text)
{
    uint32_t value = json_tree_member(tree, 0, name);
    return value && json_tree_is(tree, value, text);
}

/* Whether config.json is the file that the record is about. */
static bool is_of_config(const struct json_tree *tree)
{
    char path[PATH_MAX], now[256];
    struct stat status;
    size_t size = 0;
    uint32_t config = json_tree_member(tree, 0, "config"), identity = json_tree_member(tree, 0, "identity");
    const char *text = config ? json_tree_plain(tree, config, &size) : NULL;
    if (!text || size >= sizeof path || !identity)
        return false;
    memcpy(path, text, size);
    path[size] = '\0';
    if (lstat(path, &status) != 0)
        return false;
    int length = snprintf(now, sizeof now, "[%ju,%ju,%jd,%jd%09ld,%jd%09ld]", (uintmax_t)status.st_dev,
                          (uintmax_t)status.st_ino, (intmax_t)status.st_size, (intmax_t)status.st_mtim.tv_sec,
                          status.st_mtim.tv_nsec, (intmax_t)status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
    return edit_is_text(tree, identity, (struct span){now, (size_t)length});
}

bool record_read(struct record *record, const struct call *call, const char *name, const char *key)
{
    const struct json_tree *tree = &record->tree;
    cleanup_fd int directory = open_ours("c");
    ssize_t size = directory < 0 ? -1 : read_ours(directory, key, record->text, MAX_RECORD);
    char *line = size < 0 ? NULL : memchr(record->text, '\n', (size_t)size);
    if (!line || size == MAX_RECORD)
        return false;
    line++;
    size_t left = (size_t)(record->text + size - line);
    if (json_tree_read(&record->tree, line, left) != 0 || json_tree_kind(tree, 0) != '{')
        return false;
    uint32_t format = json_tree_member(tree, 0, "format");
    return format && edit_is_text(tree, format, (struct span){"1", 1}) && is_member(tree, "name", name) &&
           is_member(tree, "root", call->root ? call->root : "") && is_member(tree, "id", call->id) &&
           is_of_config(tree);
}
