/*
 * Reading an ELF file by a few small preads.
 *
 * Compared with mmap, a cold disk reads only what is needed, a lack of address space is no error, and a file that is
 * shortened meanwhile gives a short read instead of a SIGBUS. ELF_READS limits the work that a crafted file can cause.
 */
#define _GNU_SOURCE
#include "elffile.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

static size_t fetch(struct elf_file *file, uint64_t at, void *into, size_t room)
{
    if (file->reads >= ELF_READS || at > INT64_MAX)
        return 0;
    file->reads++;
    ssize_t got = pread(file->fd, into, room, (off_t)at);
    return got < 0 ? 0 : (size_t)got;
}

static size_t copy(void *into, size_t size, uint64_t at, const unsigned char *from, uint64_t from_at, size_t have)
{
    if (at < from_at || at - from_at >= have)
        return 0;
    size_t skip = (size_t)(at - from_at);
    size_t part = size < have - skip ? size : have - skip;
    memcpy(into, from + skip, part);
    return part;
}

void elf_get(struct elf_file *file, uint64_t at, void *into, size_t size)
{
    memset(into, 0, size);
    if (at >= file->size)
        return;
    if (size > file->size - at)
        size = (size_t)(file->size - at);
    if (copy(into, size, at, file->head, 0, file->head_have) == size)
        return;
    for (int i = 0; i < 2; i++)
        if (copy(into, size, at, file->parts[i].bytes, file->parts[i].at, file->parts[i].have) == size)
            return;
    file->latest = !file->latest;
    struct elf_part *part = &file->parts[file->latest];
    part->at = at;
    part->have = fetch(file, at, part->bytes, ELF_PART);
    copy(into, size, at, part->bytes, at, part->have);
}

uint32_t elf_get32(struct elf_file *file, uint64_t at)
{
    uint32_t value;

    elf_get(file, at, &value, sizeof value);
    return value;
}

bool elf_spent(const struct elf_file *file)
{
    return file->reads >= ELF_READS;
}

bool elf_within(const struct elf_file *file, uint64_t at)
{
    return at <= file->size;
}

bool elf_string_is(struct elf_file *file, uint64_t at, const char *text)
{
    char have[40];
    size_t length = strlen(text) + 1;

    elf_get(file, at, have, length);
    return !memcmp(have, text, length);
}

bool elf_get_string(struct elf_file *file, uint64_t at, char *into)
{
    enum { STEP = 128 };

    for (size_t have = 0; have + STEP <= LD_SONAME_MAX; have += STEP) {
        elf_get(file, at + have, into + have, STEP);
        if (memchr(into + have, 0, STEP))
            return true;
    }
    return false;
}

bool elf_begin(struct elf_file *file, int fd, uint64_t size)
{
    file->fd = fd;
    file->size = size;
    file->reads = file->latest = 0;
    file->parts[0].have = file->parts[1].have = 0;
    file->head_have = fetch(file, 0, file->head, ELF_HEAD);
    return file->head_have >= EI_NIDENT;
}
