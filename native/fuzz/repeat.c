/*
 * A config.json and, behind a NUL, the fields of an answer: the tree of the text, the question in it, and the inserts. The
 * answer gets its first line here, so that its fields are read.
 */
#define _GNU_SOURCE
#include "call.h"
#include "insert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHIM_VERSION
#define SHIM_VERSION "fuzz" /* as for all of a build for fuzzing */
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct json_tree tree;
static struct question question;
static struct inserts inserts;

static void check(bool is_right)
{
    if (!is_right)
        abort();
}

/* A second reading of the checksum: digit by digit, from the highest. */
static unsigned long long checksum(const uint8_t *bytes, size_t size)
{
    const unsigned long long prime = (1ull << 60) - 93;
    unsigned long long sum = 0;
    while (size--)
        for (int bit = 7; bit >= 0; bit--)
            sum = (sum * 2 + (bytes[size] >> bit & 1)) % prime;
    return sum;
}

/* Each value lies in the text, and the values of a list or object lie in it, one behind the other. */
static void check_tree(const struct json_tree *found, size_t size)
{
    for (uint32_t i = 0; i < found->count; i++) {
        const struct json_value *value = &found->values[i];
        uint32_t last = value->start, count = 0;
        check(value->start < value->end && value->end <= size);
        for (uint32_t at = value->first; at; at = found->values[at].next, count++) {
            check(at < found->count && found->values[at].start > last && found->values[at].end <= value->end);
            last = found->values[at].end - 1;
        }
        check(count == value->count);
    }
}

static void check_question(void)
{
    static char *const argv[] = {"runc", "create", "--device", "v.example/gpu=0", "--bundle", "/b", "c1", NULL};
    struct call call;
    char *kept[8], *devices[8];
    parse_call(RUNC, 7, argv, &call, kept, devices);
    if (question_read(&question, &tree, &call, devices, "shim") != 0)
        return;
    check(question.count > 0 && strlen(question.text) < sizeof question.text);
    for (unsigned i = 0; i < question.count; i++)
        check(question.requests[i].name.size > 0 && question.requests[i].name.size <= MAX_REQUEST);
}

/* The parts of the new text have its size, and those of the old one come in its order. */
static void check_parts(const char *text, size_t text_size, int status)
{
    static struct span parts[MAX_PARTS];
    size_t size = 0, volatile_sum = 0;
    const char *last = text;
    unsigned count = insert_parts(&inserts, &tree, text_size, parts);
    check(count >= 1 && count <= MAX_PARTS);
    for (unsigned i = 0; i < count; size += parts[i++].size) {
        for (size_t at = 0; at < parts[i].size; at++)
            volatile_sum += (unsigned char)parts[i].text[at]; /* each byte may be read */
        if (i % 2 == 0) {
            check(parts[i].text >= last && parts[i].text + parts[i].size <= text + text_size);
            last = parts[i].text + parts[i].size;
        }
    }
    check(volatile_sum <= size * 255 && (status || (size == text_size && count == 1)));
}

static void check_inserts(const char *text, size_t text_size, const uint8_t *fields, size_t size)
{
    struct answer answer;
    size_t room = size + 64;
    char *bytes = malloc(room);
    int line = snprintf(bytes, room, "shim-answer 1 " SHIM_VERSION " %016llx %08zu\n", checksum(fields, size), size);
    memcpy(bytes + line, fields, size);
    if (answer_read(&answer, bytes, (size_t)line + size) == 0) {
        int status = insert_edits(&inserts, &tree, &answer);
        check(status <= 1);
        if (status >= 0)
            check_parts(text, text_size, status);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\0', size);
    size_t text_size = end ? (size_t)(end - data) : size;
    char *text = strndup((const char *)data, text_size);
    text_size = strlen(text);
    if (json_tree_read(&tree, text, text_size) == 0) {
        check_tree(&tree, text_size);
        check_question();
        if (end)
            check_inserts(text, text_size, end + 1, size - text_size - 1);
    }
    free(text);
    return 0;
}
