/* A file of needles, of any contents; the version is "fuzz". Paths in it are looked at, never opened. */
#define _GNU_SOURCE
#include "scan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char first[] = "shim-needles 1 fuzz\n", last[] = "\nend\n";
    struct needle needles[4];
    char *text = malloc(size ? size : 1); /* exactly as large, so that a step too far is seen */
    if (!text)
        abort();
    memcpy(text, data, size);
    bool is_current, enforces;
    int count = parse_needles(text, size, needles, 4, &is_current, &enforces);
    if (count > 4)
        abort();
    for (int i = 0; i < count; i++) {
        bool is_inside = needles[i].text > text && needles[i].text + needles[i].size < text + size;
        if (!is_inside || needles[i].size == 0 || memchr(needles[i].text, '\n', needles[i].size))
            abort();
    }
    if (count >= 0 && (size < sizeof first + sizeof last || memcmp(data, first, sizeof first - 1) != 0 ||
                       memcmp(data + size - (sizeof last - 1), last, sizeof last - 1) != 0))
        abort();
    free(text);
    return 0;
}
