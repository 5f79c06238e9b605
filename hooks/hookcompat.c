/*
 * The hook enable-cuda-compat: an image may contain a libcuda of its own, for hosts with an older driver.
 *
 * Since CUDA 13 such a library has a note with the drivers that it works with: JSON with the branches of the driver
 * (`Driver`) and its `CUDA Version`. Then it comes first if the host's branch is in the list and the library is newer:
 * by the CUDA version if the host's is known, else if it is not of the host's own branch. Without a note the branches
 * are compared; the library's is in its file's name. The note comes from the image, so it is read with limits; a note
 * that cannot be parsed counts as missing.
 *
 * The choice is stored in a file of a fixed name, which is created, corrected and removed here; update-ldcache reads
 * it.
 */
#define _GNU_SOURCE
#include "elffile.h"
#include "hook.h"
#include "json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096 };

static const char drop_in[] = LD_COMPAT_DROP_IN;

struct compat {
    unsigned count;
    unsigned long major; /* the branch in the file's name */
    char name[256];
};

/* The contents of the note. */
struct note {
    int64_t format;
    unsigned drivers; /* length of the list */
    bool listed;      /* the list has the host's driver */
    char cuda[32];
};

static int take_library(const struct dirent *entry, void *context)
{
    static const char stem[] = "libcuda.so.";
    struct compat *compat = context;
    const char *version = entry->d_name + sizeof stem - 1;
    char *end;

    if (strncmp(entry->d_name, stem, sizeof stem - 1) || (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN))
        return 0;
    unsigned long major = strtoul(version, &end, 10);
    if (end == version || *end != '.')
        return 0;
    compat->count++;
    compat->major = major;
    strcpy(compat->name, entry->d_name);
    return 0;
}

/* ---- the note ---- */

static bool parse_note(const char *text, size_t size, unsigned long driver, struct note *note)
{
    struct json json;
    char name[16];
    int64_t number;

    *note = (struct note){0};
    json_open(&json, text, size);
    if (!json_enter(&json, '{'))
        return false;
    while (json_member(&json, name, sizeof name)) {
        if (!strcmp(name, "Format")) {
            json_integer(&json, &note->format);
        } else if (!strcmp(name, "CUDA Version")) {
            json_string(&json, note->cuda, sizeof note->cuda);
        } else if (!strcmp(name, "Driver") && json_enter(&json, '[')) {
            for (; json_more(&json); note->drivers++)
                note->listed |= json_integer(&json, &number) && number >= 0 && (unsigned long)number == driver;
        } else {
            json_skip(&json);
        }
    }
    return json_done(&json) && note->format == 1;
}

/* Reads the note of the library; false when it is missing or cannot be parsed. */
static bool read_note(const struct root *root, const char *folder, const char *name, unsigned long driver,
                      struct note *note)
{
    char text[ELF_PART];
    struct stat st;
    bool foreign;
    cleanup_fd int dir = root_directory(root, folder, &foreign);
    cleanup_fd int fd = dir < 0 ? dir : root_entry(dir, name, foreign, &st, NULL);

    if (fd < 0)
        return false;
    size_t size =
        elf_note(fd, (uint64_t)st.st_size, ".note.cuda.fwd_compatibility", "NVIDIA Corporation", text, sizeof text);
    return size && parse_note(text, size, driver, note);
}

/* ---- the decision ---- */

/* Whether the first version is newer than the second: "13.1" is newer than "12.9". */
static bool newer(const char *first, const char *second)
{
    while (*first || *second) {
        char *first_end, *second_end;
        unsigned long left = strtoul(first, &first_end, 10), right = strtoul(second, &second_end, 10);
        if (left != right)
            return left > right;
        if (*first_end != '.' && *second_end != '.')
            return false;
        first = first_end + (*first_end == '.');
        second = second_end + (*second_end == '.');
    }
    return false;
}

static bool good_by_note(const struct hook_call *call, unsigned long driver, const struct compat *compat,
                         const struct note *note)
{
    if (driver && note->drivers && !note->listed)
        return false;
    if (call->cuda && *call->cuda && *note->cuda)
        return newer(note->cuda, call->cuda);
    return driver && note->drivers && compat->major != driver;
}

/* Whether a text is numbers with dots between them, the first not 0. */
static bool is_version(const char *text)
{
    static const char digits[] = "0123456789";

    if (*text == '0')
        return false;
    for (;;) {
        size_t length = strspn(text, digits);
        if (!length || text[length] != '.')
            return length && !text[length];
        text += length + 1;
    }
}

/* The branch of a driver's version (550 of 550.54.14); 0 for other versions, like the 1.1 of WSL and Jetson. */
static unsigned long branch_of(const char *version)
{
    size_t length = strcspn(version, ".");

    return is_version(version) && length >= 3 && length <= 6 ? strtoul(version, NULL, 10) : 0;
}

/* Whether the image's library is to be used. If the image has several, none is. */
static int compat_wanted(const struct root *root, const struct hook_call *call, const char *folder, bool *wanted)
{
    bool known = call->driver && *call->driver, cuda = call->cuda && *call->cuda;
    unsigned long driver = known ? branch_of(call->driver) : 0;
    struct compat compat = {0};
    struct note note;

    *wanted = false;
    if ((known && !driver) || (cuda && !is_version(call->cuda))) /* such libraries do not support this host */
        return 0;
    int rc = hook_each_name(root, folder, take_library, &compat);
    if (rc || compat.count != 1)
        return rc;
    if (read_note(root, folder, compat.name, driver, &note))
        *wanted = good_by_note(call, driver, &compat, &note);
    else
        *wanted = driver && compat.major > driver;
    return root_late(root);
}

int hook_enable_cuda_compat(const struct root *root, const struct hook_call *call, struct fault *fault)
{
    const char *folder = call->compat ? call->compat : "/usr/local/cuda/compat";
    char text[PATH];
    bool wanted;
    int length = snprintf(text, sizeof text, "%s\n", folder);

    if (*folder != '/' || strpbrk(folder, "\n#") || length >= (int)sizeof text)
        return fault_say(fault, EINVAL, "--cuda-compat-container-root %s is no directory of the container", folder);
    int rc = compat_wanted(root, call, folder, &wanted);
    if (rc)
        return fault_set(fault, -rc, "cannot search %s", folder);
    if (!wanted) {
        struct stat st;
        if (root_lstat(root, drop_in, &st))
            return root_late(root);
        rc = root_unlink(root, drop_in);
        return rc && rc != -EXDEV ? fault_set(fault, -rc, "cannot remove %s", drop_in) : 0; /* EXDEV: not read either */
    }
    if (root_holds(root, drop_in, text, (size_t)length))
        return 0;
    rc = root_mkdir(root, "/etc/ld.so.conf.d", 0755);
    if (!rc)
        rc = root_replace(root, drop_in, text, (size_t)length, 0644);
    return rc ? fault_set(fault, -rc, "cannot write %s", drop_in) : 0;
}
