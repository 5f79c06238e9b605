/*
 * The facts that ldconfig determines for a file: whether it is a library, its type, ISA level and soname.
 *
 * The rules are glibc's (elf/readlib.c, elf/readelflib.c and the sysdeps variants), also the unexpected ones: the last
 * PT_DYNAMIC counts and its offset is cut to 32 bits, the dynamic entries end at DT_NULL whatever the segment's size,
 * offsets equal to the file's size are valid. Where glibc reads past the end of a mapping and may crash, zeros are read
 * here.
 *
 * elffile.c does the reading.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct segment {
    uint32_t type;
    uint64_t offset, vaddr, filesz, align;
};

static uint64_t entry_size(const struct elf_file *file)
{
    return file->native32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

static struct segment get_segment(struct elf_file *file, uint64_t at)
{
    if (file->native32) {
        Elf32_Phdr p;
        elf_get(file, at, &p, sizeof p);
        return (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz, p.p_align};
    }
    Elf64_Phdr p;
    elf_get(file, at, &p, sizeof p);
    return (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz, p.p_align};
}

struct dynamic {
    int64_t tag;
    uint64_t value;
};

static struct dynamic get_dynamic(struct elf_file *file, uint64_t at)
{
    if (file->native32) {
        Elf32_Dyn d;
        elf_get(file, at, &d, sizeof d);
        return (struct dynamic){d.d_tag, d.d_un.d_val};
    }
    Elf64_Dyn d;
    elf_get(file, at, &d, sizeof d);
    return (struct dynamic){d.d_tag, d.d_un.d_val};
}

/* ---- program headers ---- */

struct layout {
    uint64_t headers;
    unsigned count;
    uint64_t dynamic; /* file offset of the dynamic entries */
    bool has_dynamic;
};

/* The first GNU property note has the ISA level that the code needs; only x86 has such levels. */
static unsigned isa_of_properties(struct elf_file *file, uint64_t at, uint64_t end, uint64_t word)
{
    static const uint32_t isa_1_needed = 0xc0008002;
    uint32_t last = 0;

    do {
        uint32_t type = elf_get32(file, at), size = elf_get32(file, at + 4);
        if (type < last || at + 8 + size > end || at >= file->size || elf_spent(file))
            return 0;
        if (type == isa_1_needed && size == 4) {
            uint32_t levels = elf_get32(file, at + 8);
            return levels ? 31u - (unsigned)__builtin_clz(levels) : 0;
        }
        if (type >= isa_1_needed)
            return 0;
        last = type;
        at += 8 + (((uint64_t)size + word - 1) & ~(word - 1));
    } while (at <= end && end - at >= 8);
    return 0;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

static unsigned isa_of_notes(struct elf_file *file, const struct segment *segment)
{
    uint64_t word = file->native32 ? 4 : 8;

    if (segment->align != word)
        return 0;
    for (uint64_t at = 0; at + 12 < segment->filesz && segment->offset + at < file->size && !elf_spent(file);) {
        uint64_t note = segment->offset + at;
        uint32_t name_size = elf_get32(file, note), size = elf_get32(file, note + 4), type = elf_get32(file, note + 8);
        if (name_size == 4 && type == NT_GNU_PROPERTY_TYPE_0 && elf_string_is(file, note + 12, "GNU"))
            return size < 8 || size % word ? 0 : isa_of_properties(file, note + 16, note + 16 + size, word);
        at += round_up(round_up(12 + (uint64_t)name_size, word) + size, word);
    }
    return 0;
}

static bool known_interpreter(struct elf_file *file, uint64_t at)
{
    static const char *const names[] = {"/lib/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2", "/libx32/ld-linux-x32.so.2",
                                        "/lib64/ld-linux-x86-64.so.2"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (elf_string_is(file, at, names[i]))
            return true;
    return false;
}

static bool read_segments(struct elf_file *file, struct layout *layout, const struct ld_profile *profile,
                          struct elf_facts *facts)
{
    for (unsigned i = 0; i < layout->count; i++) {
        uint64_t at = layout->headers + i * entry_size(file);
        if (!elf_within(file, at) || elf_spent(file))
            return false;
        struct segment segment = get_segment(file, at);
        switch (segment.type) {
        case PT_DYNAMIC:
            layout->dynamic = (uint32_t)segment.offset;
            layout->has_dynamic = segment.filesz != 0;
            break;
        case PT_INTERP:
            if (!elf_within(file, segment.offset))
                return false;
            if (profile->old && known_interpreter(file, segment.offset))
                facts->flags = LD_TYPE_LIBC6;
            break;
        case PT_GNU_PROPERTY:
            if (profile->arch->family == LD_X86) {
                unsigned isa = isa_of_notes(file, &segment);
                if (isa)
                    facts->isa = isa;
            }
            break;
        }
    }
    return layout->has_dynamic && elf_within(file, layout->dynamic);
}

/* ---- dynamic entries ---- */

/* The file offset of an address: by the first loaded segment that holds it, else the address itself. */
static uint64_t offset_of(struct elf_file *file, const struct layout *layout, uint64_t address)
{
    for (unsigned i = 0; i < layout->count && !elf_spent(file); i++) {
        struct segment s = get_segment(file, layout->headers + i * entry_size(file));
        if (s.type == PT_LOAD && address >= s.vaddr && address - s.vaddr < s.filesz) {
            uint64_t offset = address + s.offset - s.vaddr;
            return file->native32 ? (uint32_t)offset : offset;
        }
    }
    return address;
}

static uint64_t dynamic_size(const struct elf_file *file)
{
    return file->native32 ? sizeof(Elf32_Dyn) : sizeof(Elf64_Dyn);
}

static bool find_strings(struct elf_file *file, const struct layout *layout, uint64_t *strings)
{
    for (uint64_t at = layout->dynamic; elf_within(file, at) && !elf_spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return false;
        if (entry.tag == DT_STRTAB) {
            *strings = offset_of(file, layout, entry.value);
            return elf_within(file, *strings);
        }
    }
    return false;
}

static bool take_soname(struct elf_file *file, uint64_t name, struct elf_facts *facts)
{
    facts->named = elf_within(file, name) && elf_get_string(file, name, facts->soname);
    return facts->named;
}

/* glibc >= 2.37: the first soname. */
static bool read_soname(struct elf_file *file, const struct layout *layout, uint64_t strings, struct elf_facts *facts)
{
    for (uint64_t at = layout->dynamic; !elf_spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return true;
        if (entry.tag == DT_SONAME)
            return take_soname(file, strings + entry.value, facts);
    }
    return false;
}

/* glibc <= 2.36 continues until it has a soname and a type, which follows from a needed libc or libm. */
static bool read_needs(struct elf_file *file, const struct layout *layout, uint64_t strings, struct elf_facts *facts)
{
    for (uint64_t at = layout->dynamic; !elf_spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        uint64_t name = strings + entry.value;
        if (entry.tag == DT_NULL)
            return true;
        if (entry.tag == DT_SONAME) {
            if (!take_soname(file, name, facts))
                return false;
        } else if (entry.tag == DT_NEEDED) {
            if (!elf_within(file, name))
                return false;
            if (facts->flags == LD_TYPE_ELF &&
                (elf_string_is(file, name, "libc.so.6") || elf_string_is(file, name, "libm.so.6")))
                facts->flags = LD_TYPE_LIBC6;
        } else {
            continue;
        }
        if (facts->named && facts->flags != LD_TYPE_ELF)
            return true;
    }
    return false;
}

/*
 * Whether that loop would give nothing but the first soname: there is at most one soname, and no bad offset. Then the
 * needed names need not be read where the type follows from the machine, as it nearly always does.
 */
static bool needs_do_not_matter(struct elf_file *file, const struct layout *layout, uint64_t strings)
{
    unsigned sonames = 0;

    for (uint64_t at = layout->dynamic; !file->native32 && !elf_spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return sonames <= 1;
        sonames += entry.tag == DT_SONAME;
        if ((entry.tag == DT_NEEDED || entry.tag == DT_SONAME) && !elf_within(file, strings + entry.value))
            return false;
    }
    return false;
}

static bool read_names(struct elf_file *file, const struct layout *layout, uint64_t strings,
                       const struct ld_profile *profile, struct elf_facts *facts)
{
    if (profile->old && !needs_do_not_matter(file, layout, strings))
        return read_needs(file, layout, strings, facts);
    return read_soname(file, layout, strings, facts);
}

/* ---- the machine ---- */

static int x86_flags(const Elf32_Ehdr *header, int flags)
{
    if (header->e_machine == EM_X86_64)
        return LD_TYPE_LIBC6 | (header->e_ident[EI_CLASS] == ELFCLASS64 ? 0x0300 : 0x0800);
    return header->e_machine == EM_386 && header->e_ident[EI_CLASS] == ELFCLASS32 ? flags : -1;
}

static int arm_flags(bool native32, uint32_t e_flags, int flags)
{
    if (!native32)
        return 0x0a00 | LD_TYPE_LIBC6;
    if ((e_flags & EF_ARM_EABIMASK) != EF_ARM_EABI_VER5)
        return flags;
    return e_flags & EF_ARM_ABI_FLOAT_HARD   ? 0x0900 | LD_TYPE_LIBC6
           : e_flags & EF_ARM_ABI_FLOAT_SOFT ? 0x0b00 | LD_TYPE_LIBC6
                                             : flags;
}

static int riscv_flags(uint32_t e_flags)
{
    if (e_flags & ~(uint32_t)(EF_RISCV_RVC | EF_RISCV_FLOAT_ABI))
        return -1;
    switch (e_flags & EF_RISCV_FLOAT_ABI) {
    case EF_RISCV_FLOAT_ABI_SOFT:
        return 0x0f00 | LD_TYPE_LIBC6;
    case EF_RISCV_FLOAT_ABI_DOUBLE:
        return 0x1000 | LD_TYPE_LIBC6;
    }
    return -1;
}

/* The flags of an entry as the ldconfig of this architecture gives them, or -1: another architecture. */
static int machine_flags(struct elf_file *file, const Elf32_Ehdr *header, const struct ld_arch *arch, int flags)
{
    uint32_t e_flags = elf_get32(file, file->native32 ? 36 : 48);

    switch (arch->family) {
    case LD_X86:
        return x86_flags(header, flags);
    case LD_ARM:
        return arm_flags(file->native32, e_flags, flags);
    case LD_POWER:
        return file->native32 ? flags : 0x0500 | LD_TYPE_LIBC6;
    case LD_S390:
        return file->native32 ? flags : 0x0400 | LD_TYPE_LIBC6;
    case LD_RISCV:
        return riscv_flags(e_flags);
    case LD_LOONG:
        return (e_flags & 7) == 1 ? 0x1100 | LD_TYPE_LIBC6 : 0x1200 | LD_TYPE_LIBC6;
    }
    return -1;
}

/* ---- whole files ---- */

static int read_elf(struct elf_file *file, const struct ld_profile *profile, struct elf_facts *facts)
{
    Elf32_Ehdr header; /* the fields used before the class is known have the same offsets in both */

    elf_get(file, 0, &header, sizeof header);
    uint8_t class = header.e_ident[EI_CLASS];
    if ((class != ELFCLASS32 && class != ELFCLASS64) || header.e_type != ET_DYN)
        return 0;
    file->native32 = class == ELFCLASS32;
    facts->flags = profile->old ? LD_TYPE_ELF : LD_TYPE_LIBC6;

    struct layout layout = {.headers = header.e_phoff, .count = header.e_phnum};
    if (!file->native32) {
        Elf64_Ehdr wide;
        elf_get(file, 0, &wide, sizeof wide);
        layout.headers = wide.e_phoff;
        layout.count = wide.e_phnum;
    }
    uint64_t strings;
    if (!elf_within(file, layout.headers) || !read_segments(file, &layout, profile, facts) ||
        !find_strings(file, &layout, &strings) || !read_names(file, &layout, strings, profile, facts))
        return 0;
    facts->flags = machine_flags(file, &header, profile->arch, facts->flags);
    return facts->flags >= 0;
}

int elf_read(int fd, uint64_t size, const struct ld_profile *profile, struct elf_facts *facts)
{
    struct elf_file file;

    facts->aout = facts->named = false;
    facts->isa = 0;
    if (size < (profile->arch->class == ELFCLASS64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)) ||
        !elf_begin(&file, fd, size))
        return 0;
    if (!memcmp(file.head, "\x0b\x01", 2) || !memcmp(file.head, "\xcc\x00", 2)) {
        facts->aout = true;
        facts->flags = profile->old ? 0 : LD_TYPE_LIBC6;
        return 1;
    }
    return memcmp(file.head, ELFMAG, SELFMAG) ? 0 : read_elf(&file, profile, facts);
}
