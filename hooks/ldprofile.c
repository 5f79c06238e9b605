/*
 * The profile: which ldconfig is imitated.
 *
 * A cache is read by the root's own libc, so it is written as that libc's ldconfig would write it: architecture,
 * built-in directories, rules, and even the generator text at the file's end, which has the same facts as the version
 * banner of libc.so.6. The profile is taken from the first of these: the banner of the root's libc; the generator in
 * the root's cache (for a libc in an unusual directory); this host's own cache (a root without libc is usually made for
 * a comparison with the host's ldconfig); the newest rules. An older glibc reads the newest format, too.
 *
 * Two sets of rules are sufficient: up to 2.36, and from 2.37. Other changes of glibc do not affect which file a lookup
 * finds.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const struct ld_arch arches[] = {
    {"x86_64-linux-gnu",
     EM_X86_64,                             ELFCLASS64,
     LD_X86,                                                      false,
     {"/lib", "/lib64", "/libx32", "/usr/lib", "/usr/lib64", "/usr/libx32"}                                          },
    {"aarch64-linux-gnu",     EM_AARCH64,   ELFCLASS64, LD_ARM,   true,  {"/lib", "/lib64", "/usr/lib", "/usr/lib64"}},
    {"i386-linux-gnu",        EM_386,       ELFCLASS32, LD_X86,   false, {"/lib", "/usr/lib"}                        },
    {"arm-linux-gnueabihf",   EM_ARM,       ELFCLASS32, LD_ARM,   true,  {"/lib", "/usr/lib"}                        },
    {"powerpc64le-linux-gnu", EM_PPC64,     ELFCLASS64, LD_POWER, true,  {"/lib64", "/usr/lib64"}                    },
    {"s390x-linux-gnu",       EM_S390,      ELFCLASS64, LD_S390,  true,  {"/lib64", "/usr/lib64"}                    },
    {"riscv64-linux-gnu",
     EM_RISCV,                              ELFCLASS64,
     LD_RISCV,                                                    true,
     {"/lib64/lp64d", "/lib64/lp64", "/lib32/ilp32d", "/lib32/ilp32", "/usr/lib64/lp64d", "/usr/lib64/lp64",
      "/usr/lib32/ilp32d", "/usr/lib32/ilp32"}                                                                       },
    {"loongarch64-linux-gnu", EM_LOONGARCH, ELFCLASS64, LD_LOONG, false, {"/lib", "/lib64", "/usr/lib", "/usr/lib64"}},
};

enum { ARCHES = sizeof arches / sizeof *arches };

static const struct ld_arch *arch_of(uint16_t machine, uint8_t class)
{
    for (size_t i = 0; i < ARCHES; i++)
        if (arches[i].machine == machine && arches[i].class == class)
            return &arches[i];
    return NULL;
}

static const struct ld_arch *host_arch(void)
{
#if defined __x86_64__
    return arch_of(EM_X86_64, ELFCLASS64);
#elif defined __aarch64__
    return arch_of(EM_AARCH64, ELFCLASS64);
#elif defined __i386__
    return arch_of(EM_386, ELFCLASS32);
#elif defined __arm__
    return arch_of(EM_ARM, ELFCLASS32);
#elif defined __powerpc64__
    return arch_of(EM_PPC64, ELFCLASS64);
#elif defined __s390x__
    return arch_of(EM_S390, ELFCLASS64);
#elif defined __riscv
    return arch_of(EM_RISCV, ELFCLASS64);
#elif defined __loongarch__
    return arch_of(EM_LOONGARCH, ELFCLASS64);
#else
#error "no row in the table of architectures for this machine"
#endif
}

/* ---- names of subdirectories for parts of a CPU family, glibc <= 2.36 ---- */

uint64_t ld_hwcap_bit(const struct ld_profile *profile, const char *name)
{
    static const struct {
        const char *name;
        unsigned bit;
    } x86[] = {
        {"sse2",     0 },
        {"x86_64",   1 },
        {"avx512_1", 2 },
        {"i586",     48},
        {"i686",     49},
        {"haswell",  50},
        {"xeon_phi", 51}
    };

    if (!profile->old)
        return 0;
    if (!strcmp(name, "tls"))
        return 1ull << 63;
    if (profile->arch->family == LD_ARM && profile->arch->class == ELFCLASS64)
        return strcmp(name, "atomics") ? 0 : 1ull << 8;
    for (size_t i = 0; profile->arch->family == LD_X86 && i < sizeof x86 / sizeof *x86; i++)
        if (!strcmp(name, x86[i].name))
            return 1ull << x86[i].bit;
    return 0;
}

/* ---- the order of names ---- */

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The value of a run of digits as glibc computes it: an int that wraps. */
static int number(const char **text)
{
    uint32_t value = 0;

    while (digit(**text))
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
    return (int)value;
}

int ld_compare(const struct ld_arch *arch, const char *first, const char *second)
{
    for (;; first++, second++) {
        while (digit(*first) && digit(*second)) {
            int left = number(&first), right = number(&second);
            if (left != right)
                return (int)((uint32_t)left - (uint32_t)right);
        }
        if (*first && digit(*first))
            return 1;
        if (*first && digit(*second))
            return -1;
        if (*first != *second || !*first)
            break;
    }
    return arch->unsigned_char ? (unsigned char)*first - (unsigned char)*second
                               : (signed char)*first - (signed char)*second;
}

/* ---- versions ---- */

/* A generator: "ldconfig (Debian GLIBC 2.36-9) stable release version 2.36". */
bool ld_profile_name(struct ld_profile *profile, const char *generator, size_t length)
{
    static const char mark[] = "release version ";
    unsigned major = 0, minor = 0;

    if (length >= sizeof profile->generator || length < 10 || memcmp(generator, "ldconfig ", 9))
        return false;
    for (size_t i = 0; i < length; i++)
        if (generator[i] < ' ' || generator[i] > '~')
            return false;
    char text[sizeof profile->generator] = {0};
    memcpy(text, generator, length);
    const char *version = strstr(text, mark);
    if (!version || sscanf(version + sizeof mark - 1, "%3u.%3u", &major, &minor) != 2)
        return false;
    strcpy(profile->generator, text);
    profile->old = major == 2 && minor <= 36;
    profile->debian = strstr(text, "Debian") || strstr(text, "Ubuntu");
    return true;
}

/* ---- the banner of a libc ---- */

/* NEAR: in glibc's builds the banner is among the last constants, at most 36 KiB before the name of the interpreter. */
enum { SLICE = 40 * 1024, NEAR = SLICE, BANNER = 160 };

static bool take_banner(struct ld_profile *profile, const char *text, size_t length)
{
    char generator[BANNER + 10] = "ldconfig ";
    const char *end = memchr(text, '\n', length < BANNER ? length : BANNER);

    if (!end || end == text || end[-1] != '.')
        return false;
    size_t used = (size_t)(end - 1 - text);
    memcpy(generator + 9, text, used);
    return ld_profile_name(profile, generator, used + 9);
}

/* Searches part of a libc for "GNU C Library (...) stable release version X.Y." */
static bool search_banner(int fd, uint64_t from, uint64_t size, struct ld_profile *profile)
{
    static const char mark[] = "GNU C Library ";
    char slice[SLICE + BANNER];

    for (uint64_t at = from; at < from + size; at += SLICE) {
        ssize_t got = pread(fd, slice, sizeof slice, (off_t)at);
        if (got <= 0)
            return false;
        const char *end = slice + got, *hit = slice;
        while ((hit = memmem(hit, (size_t)(end - hit), mark, sizeof mark - 1))) {
            hit += sizeof mark - 1;
            if (take_banner(profile, hit, (size_t)(end - hit)))
                return true;
        }
    }
    return false;
}

enum { LIBC_LIMIT = 8 << 20 };

/*
 * The banner is constant data: in a loaded segment that is neither writable nor executable, usually the last such
 * segment; and there, before the name of the interpreter, which a libc has because it is a program, too.
 */
static bool search_libc(int fd, struct ld_profile *profile)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[16];

    if (profile->arch->class != ELFCLASS64) /* small enough to search whole */
        return search_banner(fd, 0, LIBC_LIMIT, profile);
    if (pread(fd, &header, sizeof header, 0) != sizeof header || header.e_phnum > 16)
        return search_banner(fd, 0, LIBC_LIMIT, profile);
    size_t size = header.e_phnum * sizeof *segments;
    if (header.e_phoff > LIBC_LIMIT || pread(fd, segments, size, (off_t)header.e_phoff) != (ssize_t)size)
        return false;
    for (int i = 0; i < header.e_phnum; i++)
        if (segments[i].p_type == PT_INTERP && segments[i].p_offset > NEAR && segments[i].p_offset < LIBC_LIMIT &&
            search_banner(fd, segments[i].p_offset - NEAR, NEAR, profile))
            return true;
    for (int i = header.e_phnum - 1; i >= 0; i--)
        if (segments[i].p_type == PT_LOAD && segments[i].p_flags == PF_R && segments[i].p_offset < LIBC_LIMIT &&
            search_banner(fd, segments[i].p_offset,
                          segments[i].p_filesz < LIBC_LIMIT ? segments[i].p_filesz : LIBC_LIMIT, profile))
            return true;
    return search_banner(fd, 0, LIBC_LIMIT, profile);
}

static bool try_libc(const struct root *root, const char *folder, bool debian, struct ld_profile *profile)
{
    char path[80];
    struct stat st;
    Elf32_Ehdr header;

    snprintf(path, sizeof path, "%s/libc.so.6", folder);
    cleanup_fd int fd = root_regular(root, path, &st);
    if (fd < 0 || pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG))
        return false;
    const struct ld_arch *arch = arch_of(header.e_machine, header.e_ident[EI_CLASS]);
    if (!arch)
        return false;
    struct ld_profile of_libc = {.arch = arch, .has_version = true};
    if (!search_libc(fd, &of_libc))
        return false;
    of_libc.debian |= debian;
    *profile = of_libc;
    return true;
}

static bool try_triplet(const struct root *root, const struct ld_arch *arch, struct ld_profile *profile)
{
    char folder[64];

    snprintf(folder, sizeof folder, "/lib/%s", arch->triplet);
    if (try_libc(root, folder, true, profile))
        return true;
    snprintf(folder, sizeof folder, "/usr/lib/%s", arch->triplet);
    return try_libc(root, folder, true, profile);
}

static bool by_libc(const struct root *root, struct ld_profile *profile)
{
    static const char *const common[] = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};

    if (try_triplet(root, host_arch(), profile))
        return true;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (try_libc(root, common[i], false, profile))
            return true;
    for (size_t i = 0; i < ARCHES; i++)
        if (&arches[i] != host_arch() && try_triplet(root, &arches[i], profile))
            return true;
    return false;
}

/* ---- the generator of a cache ---- */

/* The generator text is at the end of a cache, and its extension block has the offset. */
static bool by_cache(int fd, struct ld_profile *profile)
{
    struct {
        char magic[20];
        uint32_t count, strings;
        uint8_t flags, zero[3];
        uint32_t extension;
        uint32_t unused[3];
    } header;
    uint32_t block[6]; /* magic, number of sections, and the first section: tag, flags, offset, size */
    char text[sizeof profile->generator];

    if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.magic, "glibc-ld.so.cache1.1", 20) ||
        !header.extension || pread(fd, block, sizeof block, header.extension) != sizeof block ||
        block[0] != LD_EXTENSION_MAGIC || block[2] != 0 || block[5] >= sizeof text)
        return false;
    return pread(fd, text, block[5], block[4]) == (ssize_t)block[5] && ld_profile_name(profile, text, block[5]);
}

void ld_profile_find(const struct root *root, struct ld_profile *profile)
{
    struct stat st;

    if (by_libc(root, profile))
        return;
    *profile = (struct ld_profile){.arch = host_arch()};
    cleanup_fd int own = root_config(root, "/etc/ld.so.cache", true, &st);
    if (own >= 0 && by_cache(own, profile))
        return;
    cleanup_fd int host = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (host >= 0 && by_cache(host, profile))
        return;
    ld_profile_name(profile, LD_NEWEST, sizeof LD_NEWEST - 1);
}
