/* JSON of any contents. */
#define _GNU_SOURCE
#include "json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Walks the text as its first bytes say: into values, over them, or reading them as what they may not be. */
static void walk(struct json *json, const uint8_t *choices, size_t count)
{
    char text[16];
    int64_t number;

    for (size_t i = 0; i < count && !json->failed; i++) {
        switch (choices[i] % 8) {
        case 0:
            json_enter(json, '{');
            break;
        case 1:
            json_enter(json, '[');
            break;
        case 2:
            json_member(json, text, sizeof text);
            break;
        case 3:
            json_more(json);
            break;
        case 4:
            if (json_string(json, text, sizeof text) && !memchr(text, 0, sizeof text))
                abort();
            break;
        case 5:
            json_integer(json, &number);
            break;
        default:
            json_skip(json);
        }
        if (json->at > json->end)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json json;
    size_t choices = size < 32 ? size : 32;
    char *copy = malloc(size ? size : 1); /* exactly as large, so that a step too far is seen */

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    json_open(&json, copy, size);
    json_skip(&json);
    json_done(&json);
    json_open(&json, copy + choices, size - choices);
    walk(&json, data, choices);
    free(copy);
    return 0;
}
