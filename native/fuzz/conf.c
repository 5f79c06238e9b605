/* An ld.so.conf of any contents: the text of two files, of which the first may include the second. */
#define _GNU_SOURCE
#include "ldwork.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int folder, const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static char path[] = "/dev/shm/fuzz-conf-XXXXXX";
static int folder = -1;

static const char *const folders[] = {
    "etc", "etc/ld.so.conf.d", "a", "a/glibc-hwcaps", "a/glibc-hwcaps/x86-64-v3",
};

enum { FOLDERS = sizeof folders / sizeof *folders };

/* Leaves nothing behind in memory that outlives us. */
static void clean(void)
{
    unlinkat(folder, "etc/ld.so.conf", 0);
    unlinkat(folder, "etc/ld.so.conf.d/a.conf", 0);
    for (int i = FOLDERS; i-- > 0;)
        unlinkat(folder, folders[i], AT_REMOVEDIR);
    rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct root root;

    if (folder < 0) {
        if (!mkdtemp(path) || (folder = open(path, O_RDONLY | O_DIRECTORY)) < 0)
            abort();
        for (int i = 0; i < FOLDERS; i++)
            mkdirat(folder, folders[i], 0755);
        atexit(clean);
    }
    put(folder, "etc/ld.so.conf", data, size / 2);
    put(folder, "etc/ld.so.conf.d/a.conf", data + size / 2, size - size / 2);
    if (root_open(&root, path, NULL))
        abort();
    root_limit(&root, 1000);
    struct ld_profile profile;
    ld_profile_find(&root, &profile);
    struct ld_work work = {.root = &root, .profile = &profile, .arena.limit = 16 << 20};
    ld_conf_read(&work, "/etc/ld.so.conf");
    ld_conf_builtin(&work);
    arena_free(&work.arena);
    root_close(&root);
    return 0;
}
