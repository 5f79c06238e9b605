/*
 * What ldconfig wants to know about one file: is it a library, of which type, for which ISA level, under which soname.
 *
 * The answers are glibc's (elf/readlib.c, elf/readelflib.c and the sysdeps variants), also where they surprise: the last
 * PT_DYNAMIC counts and its offset is cut to 32 bits, the dynamic entries run to DT_NULL whatever the segment's size
 * says, offsets equal to the file's size are good. Where glibc reads past the end of a mapping and may crash, the file
 * continues here with zeros.
 *
 * A file is read by a few small preads. That needs no more of a cold disk than what is looked at, cannot fail for want
 * of address space, and a writer who shortens the file meanwhile makes a short read instead of a SIGBUS. READS bounds the
 * work that one crafted file can cause.
 */
#define _GNU_SOURCE
#include "native.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 4096, PART = 1024, READS = 1024 };

struct file {
    int fd;
    uint64_t size;
    unsigned reads;
    bool native32;             /* 32-bit headers */
    size_t head_have;
    unsigned char head[HEAD];  /* the beginning: headers, notes, often the strings too */
    struct part {
        uint64_t at;
        size_t have;
        unsigned char bytes[PART];
    } parts[2];                /* the latest two other places: dynamic entries, their strings */
    unsigned latest;
};

struct segment {
    uint32_t type;
    uint64_t offset, vaddr, filesz, align;
};

static size_t fetch(struct file *file, uint64_t at, void *into, size_t room)
{
    if (file->reads >= READS || at > INT64_MAX)
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

/* Copies SIZE bytes from offset AT; what lies past the end of the file is zero. SIZE is at most PART. */
static void get(struct file *file, uint64_t at, void *into, size_t size)
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
    struct part *part = &file->parts[file->latest];
    part->at = at;
    part->have = fetch(file, at, part->bytes, PART);
    copy(into, size, at, part->bytes, at, part->have);
}

static uint32_t get32(struct file *file, uint64_t at)
{
    uint32_t value;

    get(file, at, &value, sizeof value);
    return value;
}

/* Work for one file is at its limit: whatever it is, it is no library. */
static bool spent(const struct file *file)
{
    return file->reads >= READS;
}

/* glibc's check of a pointer: the end itself is still good. */
static bool within(const struct file *file, uint64_t at)
{
    return at <= file->size;
}

static bool string_is(struct file *file, uint64_t at, const char *text)
{
    char have[40];
    size_t length = strlen(text) + 1;

    get(file, at, have, length);
    return !memcmp(have, text, length);
}

/* Copies a string; false when it does not end within LD_SONAME_MAX bytes. */
static bool get_string(struct file *file, uint64_t at, char *into)
{
    enum { STEP = 128 };

    for (size_t have = 0; have + STEP <= LD_SONAME_MAX; have += STEP) {
        get(file, at + have, into + have, STEP);
        if (memchr(into + have, 0, STEP))
            return true;
    }
    return false;
}

static uint64_t entry_size(const struct file *file)
{
    return file->native32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

static struct segment get_segment(struct file *file, uint64_t at)
{
    if (file->native32) {
        Elf32_Phdr p;
        get(file, at, &p, sizeof p);
        return (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz, p.p_align};
    }
    Elf64_Phdr p;
    get(file, at, &p, sizeof p);
    return (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz, p.p_align};
}

struct dynamic {
    int64_t tag;
    uint64_t value;
};

static struct dynamic get_dynamic(struct file *file, uint64_t at)
{
    if (file->native32) {
        Elf32_Dyn d;
        get(file, at, &d, sizeof d);
        return (struct dynamic){d.d_tag, d.d_un.d_val};
    }
    Elf64_Dyn d;
    get(file, at, &d, sizeof d);
    return (struct dynamic){d.d_tag, d.d_un.d_val};
}

/* ---- program headers ---- */

struct layout {
    uint64_t headers;
    unsigned count;
    uint64_t dynamic;  /* file offset of the dynamic entries */
    bool has_dynamic;
};

/* The first GNU property note says which ISA level the code needs; only x86 has such levels. */
static unsigned isa_of_properties(struct file *file, uint64_t at, uint64_t end, uint64_t word)
{
    static const uint32_t isa_1_needed = 0xc0008002;
    uint32_t last = 0;

    do {
        uint32_t type = get32(file, at), size = get32(file, at + 4);
        if (type < last || at + 8 + size > end || at >= file->size || spent(file))
            return 0;
        if (type == isa_1_needed && size == 4) {
            uint32_t levels = get32(file, at + 8);
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

static unsigned isa_of_notes(struct file *file, const struct segment *segment)
{
    uint64_t word = file->native32 ? 4 : 8;

    if (segment->align != word)
        return 0;
    for (uint64_t at = 0; at + 12 < segment->filesz && segment->offset + at < file->size && !spent(file);) {
        uint64_t note = segment->offset + at;
        uint32_t name_size = get32(file, note), size = get32(file, note + 4), type = get32(file, note + 8);
        if (name_size == 4 && type == NT_GNU_PROPERTY_TYPE_0 && string_is(file, note + 12, "GNU"))
            return size < 8 || size % word ? 0 : isa_of_properties(file, note + 16, note + 16 + size, word);
        at += round_up(round_up(12 + (uint64_t)name_size, word) + size, word);
    }
    return 0;
}

static bool known_interpreter(struct file *file, uint64_t at)
{
    static const char *const names[] = {"/lib/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2", "/libx32/ld-linux-x32.so.2",
                        "/lib64/ld-linux-x86-64.so.2"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (string_is(file, at, names[i]))
            return true;
    return false;
}

static bool read_segments(struct file *file, struct layout *layout, const struct ld_profile *profile, struct elf_facts *facts)
{
    for (unsigned i = 0; i < layout->count; i++) {
        uint64_t at = layout->headers + i * entry_size(file);
        if (!within(file, at) || spent(file))
            return false;
        struct segment segment = get_segment(file, at);
        switch (segment.type) {
        case PT_DYNAMIC:
            layout->dynamic = (uint32_t)segment.offset;
            layout->has_dynamic = segment.filesz != 0;
            break;
        case PT_INTERP:
            if (!within(file, segment.offset))
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
    return layout->has_dynamic && within(file, layout->dynamic);
}

/* ---- dynamic entries ---- */

/* The file offset of an address: by the first loaded segment that holds it, else the address itself. */
static uint64_t offset_of(struct file *file, const struct layout *layout, uint64_t address)
{
    for (unsigned i = 0; i < layout->count && !spent(file); i++) {
        struct segment s = get_segment(file, layout->headers + i * entry_size(file));
        if (s.type == PT_LOAD && address >= s.vaddr && address - s.vaddr < s.filesz) {
            uint64_t offset = address + s.offset - s.vaddr;
            return file->native32 ? (uint32_t)offset : offset;
        }
    }
    return address;
}

static uint64_t dynamic_size(const struct file *file)
{
    return file->native32 ? sizeof(Elf32_Dyn) : sizeof(Elf64_Dyn);
}

static bool find_strings(struct file *file, const struct layout *layout, uint64_t *strings)
{
    for (uint64_t at = layout->dynamic; within(file, at) && !spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return false;
        if (entry.tag == DT_STRTAB) {
            *strings = offset_of(file, layout, entry.value);
            return within(file, *strings);
        }
    }
    return false;
}

static bool take_soname(struct file *file, uint64_t name, struct elf_facts *facts)
{
    facts->named = within(file, name) && get_string(file, name, facts->soname);
    return facts->named;
}

/* glibc >= 2.37: the first soname. */
static bool read_soname(struct file *file, const struct layout *layout, uint64_t strings, struct elf_facts *facts)
{
    for (uint64_t at = layout->dynamic; !spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return true;
        if (entry.tag == DT_SONAME)
            return take_soname(file, strings + entry.value, facts);
    }
    return false;
}

/* glibc <= 2.36 walks on until it has a soname and a type, which a needed libc or libm tells. */
static bool read_needs(struct file *file, const struct layout *layout, uint64_t strings, struct elf_facts *facts)
{
    for (uint64_t at = layout->dynamic; !spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        uint64_t name = strings + entry.value;
        if (entry.tag == DT_NULL)
            return true;
        if (entry.tag == DT_SONAME) {
            if (!take_soname(file, name, facts))
                return false;
        } else if (entry.tag == DT_NEEDED) {
            if (!within(file, name))
                return false;
            if (facts->flags == LD_TYPE_ELF && (string_is(file, name, "libc.so.6") || string_is(file, name, "libm.so.6")))
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
 * Whether all that walk would end with is the first soname: there is one at most, and no bad offset. Spares reading the
 * needed names where the machine tells the type anyway, which is nearly everywhere.
 */
static bool needs_tell_nothing(struct file *file, const struct layout *layout, uint64_t strings)
{
    unsigned sonames = 0;

    for (uint64_t at = layout->dynamic; !file->native32 && !spent(file); at += dynamic_size(file)) {
        struct dynamic entry = get_dynamic(file, at);
        if (entry.tag == DT_NULL)
            return sonames <= 1;
        sonames += entry.tag == DT_SONAME;
        if ((entry.tag == DT_NEEDED || entry.tag == DT_SONAME) && !within(file, strings + entry.value))
            return false;
    }
    return false;
}

static bool read_names(struct file *file, const struct layout *layout, uint64_t strings, const struct ld_profile *profile,
                       struct elf_facts *facts)
{
    if (profile->old && !needs_tell_nothing(file, layout, strings))
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
    return e_flags & EF_ARM_ABI_FLOAT_HARD ? 0x0900 | LD_TYPE_LIBC6 : e_flags & EF_ARM_ABI_FLOAT_SOFT ? 0x0b00 | LD_TYPE_LIBC6 : flags;
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

/* The flags of an entry as the ldconfig of this architecture gives them, or -1: not one of ours. */
static int machine_flags(struct file *file, const Elf32_Ehdr *header, const struct ld_arch *arch, int flags)
{
    uint32_t e_flags = get32(file, file->native32 ? 36 : 48);

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

static int read_elf(struct file *file, const struct ld_profile *profile, struct elf_facts *facts)
{
    Elf32_Ehdr header;  /* the fields used before the class is known lie at the same places in both */

    get(file, 0, &header, sizeof header);
    uint8_t class = header.e_ident[EI_CLASS];
    if ((class != ELFCLASS32 && class != ELFCLASS64) || header.e_type != ET_DYN)
        return 0;
    file->native32 = class == ELFCLASS32;
    facts->flags = profile->old ? LD_TYPE_ELF : LD_TYPE_LIBC6;

    struct layout layout = {.headers = header.e_phoff, .count = header.e_phnum};
    if (!file->native32) {
        Elf64_Ehdr wide;
        get(file, 0, &wide, sizeof wide);
        layout.headers = wide.e_phoff;
        layout.count = wide.e_phnum;
    }
    uint64_t strings;
    if (!within(file, layout.headers) || !read_segments(file, &layout, profile, facts) ||
        !find_strings(file, &layout, &strings) || !read_names(file, &layout, strings, profile, facts))
        return 0;
    facts->flags = machine_flags(file, &header, profile->arch, facts->flags);
    return facts->flags >= 0;
}

/* Looks at a regular file of SIZE bytes. Answers 1 and the facts for a library, 0 for anything else. */
int elf_read(int fd, uint64_t size, const struct ld_profile *profile, struct elf_facts *facts)
{
    struct file file;

    file.fd = fd;
    file.size = size;
    file.reads = file.latest = 0;
    file.parts[0].have = file.parts[1].have = 0;

    facts->aout = facts->named = false;
    facts->isa = 0;
    if (size < (profile->arch->class == ELFCLASS64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)))
        return 0;
    file.head_have = fetch(&file, 0, file.head, HEAD);
    if (file.head_have < EI_NIDENT)
        return 0;
    if (!memcmp(file.head, "\x0b\x01", 2) || !memcmp(file.head, "\xcc\x00", 2)) {
        facts->aout = true;
        facts->flags = profile->old ? 0 : LD_TYPE_LIBC6;
        return 1;
    }
    return memcmp(file.head, ELFMAG, SELFMAG) ? 0 : read_elf(&file, profile, facts);
}
