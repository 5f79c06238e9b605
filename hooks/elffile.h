/* elffile.c, elfnote.c, elf.c: an ELF file of an image, read in small parts. */
#pragma once

#include "common.h"

#include <elf.h>

/* elf(5) of musl and of older C libraries lacks these. */
#ifndef EF_RISCV_RVC
#define EF_RISCV_RVC 0x0001
#define EF_RISCV_FLOAT_ABI 0x0006
#define EF_RISCV_FLOAT_ABI_SOFT 0x0000
#define EF_RISCV_FLOAT_ABI_DOUBLE 0x0004
#endif
#ifndef EM_LOONGARCH
#define EM_LOONGARCH 258
#endif
#ifndef PT_GNU_PROPERTY
#define PT_GNU_PROPERTY 0x6474e553
#endif

enum { ELF_HEAD = 4096, ELF_PART = 1024, ELF_READS = 1024 };

struct elf_file {
    int fd;
    uint64_t size;
    unsigned reads; /* so far, at most ELF_READS */
    bool native32;  /* 32-bit headers */
    size_t head_have;
    unsigned char head[ELF_HEAD]; /* the beginning: headers, notes, often the strings too */
    struct elf_part {
        uint64_t at;
        size_t have;
        unsigned char bytes[ELF_PART];
    } parts[2]; /* the latest two other parts: dynamic entries, their strings */
    unsigned latest;
};

/* Starts reading an open regular file of SIZE bytes. False: it is too short for the beginning of an ELF header. */
bool elf_begin(struct elf_file *file, int fd, uint64_t size);

/* Copies SIZE bytes, at most ELF_PART, from offset AT; bytes behind the end of the file are zero. */
void elf_get(struct elf_file *file, uint64_t at, void *into, size_t size);

/* The same for a number of 32 bits. */
uint32_t elf_get32(struct elf_file *file, uint64_t at);

/* Whether the limit of reads is reached: then the file does not count as a library. */
bool elf_spent(const struct elf_file *file);

/* glibc's check of an offset: the file's end itself is valid. */
bool elf_within(const struct elf_file *file, uint64_t at);

/* Whether there is this text, of at most 39 bytes, and a NUL at an offset. */
bool elf_string_is(struct elf_file *file, uint64_t at, const char *text);

/* Copies a string to a buffer of LD_SONAME_MAX bytes. False: it does not end within so many. */
bool elf_get_string(struct elf_file *file, uint64_t at, char *into);

/*
 * Copies the text of the note in the section of this name, without the NULs around it.
 * fd, size: an open regular file and its size. owner: the name in the note.
 * Returns the length of the text, 0 when there is no such note or it does not fit.
 */
size_t elf_note(int fd, uint64_t size, const char *section, const char *owner, char *into, size_t room);

/* --- the facts that ldconfig determines for a file ------------------------------------------------------------------ */

enum { LD_TYPE_ELF = 1, LD_TYPE_LIBC6 = 3 };
enum { LD_SONAME_MAX = 128 * 1024 };

struct elf_facts {
    int flags;    /* those of an entry of the cache: libc type, ABI */
    unsigned isa; /* level that an x86 library needs */
    bool aout;    /* not ELF: the soname comes from the file's name */
    bool named;   /* soname holds the DT_SONAME */
    char soname[LD_SONAME_MAX];
};

struct ld_profile;

/* Examines an open regular file of SIZE bytes. Returns 1 and the facts for a library, 0 for any other file. */
int elf_read(int fd, uint64_t size, const struct ld_profile *profile, struct elf_facts *facts);
