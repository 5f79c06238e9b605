/*
 * Finds a note of an ELF file by its section's name.
 *
 * Loaders find notes by program headers; the vendors' notes for tools are listed in section headers, which a loader
 * never reads. An image's file may have any bytes there, so offsets are only used as offsets of pread, never as
 * pointers.
 */
#define _GNU_SOURCE
#include "elffile.h"

#include <elf.h>
#include <string.h>

struct sections {
    uint64_t at;           /* of the headers */
    unsigned count, names; /* the section that holds their names */
    size_t entry;
};

struct section {
    uint32_t name, type;
    uint64_t offset, size;
};

static struct sections get_sections(struct elf_file *file)
{
    if (file->native32) {
        Elf32_Ehdr h;
        elf_get(file, 0, &h, sizeof h);
        return (struct sections){h.e_shoff, h.e_shnum, h.e_shstrndx, sizeof(Elf32_Shdr)};
    }
    Elf64_Ehdr h;
    elf_get(file, 0, &h, sizeof h);
    return (struct sections){h.e_shoff, h.e_shnum, h.e_shstrndx, sizeof(Elf64_Shdr)};
}

static struct section get_section(struct elf_file *file, const struct sections *sections, unsigned i)
{
    uint64_t at = sections->at + (uint64_t)i * sections->entry;

    if (file->native32) {
        Elf32_Shdr s;
        elf_get(file, at, &s, sizeof s);
        return (struct section){s.sh_name, s.sh_type, s.sh_offset, s.sh_size};
    }
    Elf64_Shdr s;
    elf_get(file, at, &s, sizeof s);
    return (struct section){s.sh_name, s.sh_type, s.sh_offset, s.sh_size};
}

static bool find_section(struct elf_file *file, const char *name, struct section *note)
{
    struct sections sections = get_sections(file);

    if (sections.names >= sections.count)
        return false;
    uint64_t names = get_section(file, &sections, sections.names).offset;
    for (unsigned i = 0; i < sections.count && !elf_spent(file); i++) {
        *note = get_section(file, &sections, i);
        if (note->type == SHT_NOTE && elf_string_is(file, names + note->name, name))
            return true;
    }
    return false;
}

/* NULs around the text are removed: some linkers pad more than they should. */
size_t elf_note(int fd, uint64_t size, const char *section, const char *owner, char *into, size_t room)
{
    struct elf_file file;
    struct section note;
    size_t owner_size = strlen(owner) + 1;

    if (!elf_begin(&file, fd, size) || memcmp(file.head, ELFMAG, SELFMAG))
        return 0;
    file.native32 = file.head[EI_CLASS] == ELFCLASS32;
    if (!find_section(&file, section, &note) || note.size < 12 + owner_size)
        return 0;
    uint32_t name_size = elf_get32(&file, note.offset), text_size = elf_get32(&file, note.offset + 4);
    if ((name_size != owner_size && name_size != owner_size - 1) || !elf_string_is(&file, note.offset + 12, owner))
        return 0;
    uint64_t left = note.size - 12 - owner_size;
    if (left > (uint64_t)text_size + 8)
        left = (uint64_t)text_size + 8; /* alignment adds at most eight bytes of padding */
    if (left > room || left > ELF_PART)
        return 0;
    elf_get(&file, note.offset + 12 + owner_size, into, left);
    size_t first = 0;
    while (first < left && !into[first])
        first++;
    size_t length = strnlen(into + first, left - first < text_size ? left - first : text_size);
    memmove(into, into + first, length);
    return length;
}
