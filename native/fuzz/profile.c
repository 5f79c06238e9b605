/* Whose ldconfig is imitated, by what a root says of itself: the bytes are its ld.so.cache, and the libc.so.6 of a machine
 * of each kind. The source is taken in whole, for its functions that are not public. */
#define ld_profile_find ld_profile_find_again
#define ld_profile_name ld_profile_name_again
#define ld_compare ld_compare_again
#define ld_hwcap_bit ld_hwcap_bit_again
#include "../../hooks/ldprofile.c"

#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was taken is one line of text that begins like the name of a generator, and stands in the input. */
static void check(const struct ld_profile *profile, const uint8_t *data, size_t size)
{
    size_t length = strnlen(profile->generator, sizeof profile->generator);

    if (length == sizeof profile->generator || length < 9 || memcmp(profile->generator, "ldconfig ", 9) ||
        !memmem(data, size, profile->generator + 9, length - 9))
        abort();
    for (size_t i = 0; i < length; i++)
        if (profile->generator[i] < ' ' || profile->generator[i] > '~')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("profile", 0);
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct ld_profile profile = {.arch = host_arch()};
    if (by_cache(fd, &profile))
        check(&profile, data, size);
    for (size_t i = 0; i < ARCHES; i++) {
        profile = (struct ld_profile){.arch = &arches[i]};
        if (search_libc(fd, &profile))
            check(&profile, data, size);
    }
    return 0;
}
