/* The note of a libcuda of any contents. */
#define _GNU_SOURCE
#include "elffile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("note", 0);
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    for (size_t room = 0; room <= ELF_PART; room += ELF_PART / 2) {
        char *text = malloc(room ? room : 1);
        if (!text)
            abort();
        size_t length = elf_note(fd, size, ".note.cuda.fwd_compatibility", "NVIDIA Corporation", text, room);
        if (length > room || (length && !*text))
            abort();
        free(text);
    }
    return 0;
}
