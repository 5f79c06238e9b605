/* A library of any contents, by the rules of both glibc generations. */
#define _GNU_SOURCE
#include "ldwork.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const generators[] = {
        "ldconfig (Debian GLIBC 2.36-9) stable release version 2.36",
        "ldconfig (GNU libc) stable release version 2.41",
    };
    static struct elf_facts facts;
    static int fd = -1;
    struct root root = {.fd = -1};

    if (fd < 0)
        fd = memfd_create("elf", 0);
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    for (int i = 0; i < 2; i++) {
        struct ld_profile profile;
        ld_profile_find(&root, &profile);
        if (!ld_profile_name(&profile, generators[i], strlen(generators[i])))
            abort();
        int rc = elf_read(fd, size, &profile, &facts);
        if (rc == 1 && facts.named && !memchr(facts.soname, 0, sizeof facts.soname))
            abort();
    }
    return 0;
}
