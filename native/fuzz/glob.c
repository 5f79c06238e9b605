/* A pattern and a name of any contents, a NUL between them. */
#define _GNU_SOURCE
#include "ldcache.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = calloc(1, size + 2);

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    const char *name = copy + strlen(copy) + 1;
    bool ours = ld_glob(copy, name);
    /* the C library agrees wherever a pattern has no bracket, whose corners POSIX leaves open */
    if (size < 64 && !strpbrk(copy, "[\\") && *name && ours != !fnmatch(copy, name, FNM_PERIOD))
        abort();
    free(copy);
    return 0;
}
