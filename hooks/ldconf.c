/*
 * The directories to search, in their order: of /etc/ld.so.conf, of files that it includes, and built-in directories.
 *
 * The rules are those of glibc's ldconfig after a chroot into the root: no quoting, `#` and NUL end a line, `include`
 * has glob patterns relative to the including file, directories that are one inode count once and keep the first
 * spelling, and each new directory is followed by its glibc-hwcaps subdirectories in readdir order.
 *
 * Where ldconfig recurses until it has no descriptors left, a file that is being read already is skipped here. Numbers
 * and sizes are limited, and a root over a limit gets no cache at all (-E2BIG) instead of an incomplete cache.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { CONF_SIZE = 1 << 20, CONF_FILES = 512, CONF_DEPTH = 16, DIRS = 512 };

/* ---- the list of directories ---- */

static int keep_hwcaps_name(struct ld_work *work, const char *name, const char **kept)
{
    for (size_t i = 0; i < work->hwcaps_count; i++)
        if (!strcmp(work->hwcaps[i], name)) {
            *kept = work->hwcaps[i];
            return 0;
        }
    work->hwcaps = arena_grow(&work->arena, work->hwcaps, work->hwcaps_count, &work->hwcaps_room, sizeof *work->hwcaps);
    *kept = work->hwcaps ? arena_text(&work->arena, name, strlen(name)) : NULL;
    if (!*kept)
        return -ENOMEM;
    work->hwcaps[work->hwcaps_count++] = *kept;
    return 0;
}

int ld_conf_queue(struct ld_work *work, const struct ld_dir *dir)
{
    for (size_t i = 0; i < work->dir_count; i++)
        if (work->dirs[i]->ino == dir->ino && work->dirs[i]->dev == dir->dev) {
            work->dirs[i]->type = dir->type; /* all that a repetition changes for ldconfig */
            work->dirs[i]->injected |= work->injecting;
            return 0;
        }
    if (work->dir_count >= DIRS)
        return -E2BIG;
    work->dirs = arena_grow(&work->arena, work->dirs, work->dir_count, &work->dir_room, sizeof *work->dirs);
    struct ld_dir *copy = work->dirs ? arena_get(&work->arena, sizeof *copy) : NULL;
    if (!copy)
        return -ENOMEM;
    *copy = *dir;
    copy->fd = -1;
    copy->injected = work->injecting;
    if (!copy->lent) {
        copy->lent = ld_source_over(work, dir->dev, dir->ino);
        copy->below = "";
    }
    work->dirs[work->dir_count++] = copy;
    return 1;
}

int ld_conf_lent(struct ld_work *work, const struct ld_dir *parent, const char *path, const char *name,
                 const char *hwcaps)
{
    struct ld_dir dir = {.path = path, .type = parent->type, .hwcaps = hwcaps, .lent = parent->lent};
    struct stat st;

    /* always a copy: the name may be in the buffer of a directory that is closed before this is used */
    dir.below =
        *parent->below ? arena_join(&work->arena, parent->below, name) : arena_text(&work->arena, name, strlen(name));
    if (!dir.below)
        return -ENOMEM;
    cleanup_fd int fd = ld_source_open(dir.lent, dir.below, O_PATH | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &st))
        return 0;
    dir.dev = st.st_dev;
    dir.ino = st.st_ino;
    int rc = ld_conf_queue(work, &dir);
    return rc < 0 ? rc : 0;
}

static int queue_hwcaps_entry(struct ld_work *work, const struct ld_dir *folder, const char *name)
{
    struct ld_dir dir = {.type = folder->type};
    struct stat st;

    dir.path = arena_join(&work->arena, folder->path, name);
    if (!dir.path)
        return -ENOMEM;
    if (folder->lent) {
        int rc = keep_hwcaps_name(work, name, &dir.hwcaps);
        return rc ? rc : ld_conf_lent(work, folder, dir.path, name, dir.hwcaps);
    }
    int rc = root_stat(work->root, dir.path, &st);
    if (rc || !S_ISDIR(st.st_mode))
        return rc == -ETIMEDOUT ? rc : 0;
    dir.dev = st.st_dev;
    dir.ino = st.st_ino;
    rc = keep_hwcaps_name(work, name, &dir.hwcaps);
    return rc ? rc : ld_conf_queue(work, &dir);
}

/* Opens the glibc-hwcaps directory in a directory; folder->lent: it is not in the root but on the host. */
static int open_hwcaps(struct ld_work *work, const struct ld_dir *parent, struct ld_dir *folder)
{
    struct stat st;

    *folder = (struct ld_dir){.path = arena_join(&work->arena, parent->path, "glibc-hwcaps"), .type = parent->type};
    folder->lent = parent->lent;
    folder->below =
        parent->lent && *parent->below ? arena_join(&work->arena, parent->below, "glibc-hwcaps") : "glibc-hwcaps";
    if (!folder->path || !folder->below)
        return -ENOMEM;
    if (!folder->lent && work->source_count && !root_stat(work->root, folder->path, &st)) {
        folder->lent = ld_source_over(work, st.st_dev, st.st_ino);
        folder->below = "";
    }
    if (folder->lent)
        return ld_source_open(folder->lent, folder->below, O_RDONLY | O_DIRECTORY);
    return root_directory(work->root, folder->path, &folder->foreign);
}

static int queue_hwcaps(struct ld_work *work, const struct ld_dir *parent)
{
    struct ld_dir folder;
    cleanup_fd int fd = open_hwcaps(work, parent, &folder);
    if (fd < 0)
        return fd == -ETIMEDOUT || fd == -ENOMEM ? fd : 0;
    DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    fd = -1;
    int rc = 0;
    for (struct dirent *entry; rc >= 0 && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && entry->d_type != DT_REG && !strchr(entry->d_name, ':'))
            rc = queue_hwcaps_entry(work, &folder, entry->d_name);
    closedir(dir);
    return rc < 0 ? rc : 0;
}

/* Whether a path will be a directory below a future mount, whatever the root has there now: 1, and its identity. */
static int find_lent(struct ld_work *work, struct ld_dir *dir, struct stat *st)
{
    char text[4096];
    const char *below;

    if (!work->source_count || !ld_lexical(dir->path, NULL, text, sizeof text))
        return 0;
    const struct ld_source *source = ld_source_above(work, text, &below);
    if (!source || !*below)
        return 0;
    if (strstr(dir->path, "/..")) /* behind a link of the image `..` is another directory than by the text */
        cover_note(work->root, dir->path);
    dir->lent = source;
    dir->below = arena_text(&work->arena, below, strlen(below));
    if (!dir->below)
        return -ENOMEM;
    cleanup_fd int fd = ld_source_open(dir->lent, dir->below, O_PATH | O_DIRECTORY);
    return fd < 0 ? fd : fstat(fd, st) ? -errno : 1;
}

int ld_conf_folder(struct ld_work *work, const char *path, int type)
{
    struct ld_dir dir = {.path = path, .type = type};
    struct stat st;
    int rc = find_lent(work, &dir, &st);

    if (rc == -ELOOP || rc == -EXDEV) /* a path that only the container can resolve */
        cover_note(work->root, path);
    if (!rc)
        rc = root_stat(work->root, path, &st);
    if (rc < 0)
        return rc == -ETIMEDOUT || rc == -ENOMEM ? rc : 0;
    dir.dev = st.st_dev;
    dir.ino = st.st_ino;
    rc = ld_conf_queue(work, &dir);
    return rc == 1 ? queue_hwcaps(work, work->dirs[work->dir_count - 1]) : rc;
}

/* ---- lines ---- */

static bool space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* glibc <= 2.36 takes `dir=type`; an unknown type means any. */
static int library_type(const char *name)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {
        {"libc5",  2            },
        {"libc6",  LD_TYPE_LIBC6},
        {"glibc2", LD_TYPE_LIBC6}
    };

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return types[i].type;
    return 0;
}

static int directory_line(struct ld_work *work, const char *line)
{
    const char *equals = work->profile->old ? strchr(line, '=') : NULL;
    int type = equals ? library_type(equals + 1) : 0;
    size_t length = equals ? (size_t)(equals - line) : strlen(line);

    while (length && space(line[length - 1]))
        length--;
    while (length && line[length - 1] == '/')
        length--;
    if (!length)
        return 0;
    const char *path = arena_text(&work->arena, line, length);
    return path ? ld_conf_folder(work, path, type) : -ENOMEM;
}

struct reading { /* a file that is being read, and its including file */
    const struct reading *by;
    const char *path;
    dev_t dev;
    ino_t ino;
    unsigned depth;
};

static int read_file(struct ld_work *work, const char *path, const struct reading *by);

static int include_pattern(struct ld_work *work, const char *pattern, const struct reading *file)
{
    struct ld_matches matches = {.work = work};

    if (*pattern != '/') {
        const char *slash = strrchr(file->path, '/');
        char *folder = arena_text(&work->arena, file->path, slash ? (size_t)(slash - file->path) : 0);
        pattern = folder ? arena_join(&work->arena, folder, pattern) : NULL;
        if (!pattern)
            return -ENOMEM;
    }
    int rc = ld_expand(&matches, pattern);
    for (size_t i = 0; !rc && i < matches.count; i++)
        rc = read_file(work, matches.paths[i], file);
    return rc;
}

static int include_line(struct ld_work *work, char *words, const struct reading *file)
{
    char *word;
    int rc = 0;

    while (!rc && (word = strsep(&words, " \t")))
        if (*word)
            rc = include_pattern(work, word, file);
    return rc;
}

static int one_line(struct ld_work *work, char *line, const struct reading *file)
{
    line[strcspn(line, "#")] = 0;
    while (space(*line))
        line++;
    if (!*line)
        return 0;
    if (!strncmp(line, "include", 7) && blank(line[7]))
        return include_line(work, line + 8, file);
    if (!strncasecmp(line, "hwcap", 5) && blank(line[5]))
        return 0;
    return directory_line(work, line);
}

static bool being_read(const struct reading *file, const struct stat *st)
{
    for (; file; file = file->by)
        if (file->dev == st->st_dev && file->ino == st->st_ino)
            return true;
    return false;
}

static int read_lines(struct ld_work *work, char *text, size_t size, const struct reading *file)
{
    int rc = 0;

    for (char *end = text + size; !rc && text < end;) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            stop = end;
        *stop = 0;
        rc = one_line(work, text, file);
        text = stop + 1;
    }
    return rc;
}

/* Whether a file is a drop-in of ours; notes that the configuration includes it. */
static bool is_drop_in(struct ld_work *work, int which, const struct stat *st)
{
    struct ld_drop_in *file = &work->drop_ins[which];
    bool same = file->valid && file->dev == st->st_dev && file->ino == st->st_ino;

    file->read |= same;
    return same;
}

static int read_file(struct ld_work *work, const char *path, const struct reading *by)
{
    struct reading file = {.by = by, .path = path, .depth = by ? by->depth + 1 : 0};
    struct stat st;
    cleanup_fd int fd = root_config(work->root, path, true, &st);

    if (fd == -EXDEV && !work->remark.code)
        fault_set(&work->remark, EXDEV, "%s is not read", path);
    if (fd < 0 || being_read(by, &st))
        return ld_is_fatal(fd) ? fd : 0; /* missing, a directory, a FIFO, on another mount: as if it were empty */
    if (++work->files > CONF_FILES || file.depth > CONF_DEPTH || st.st_size > CONF_SIZE)
        return -E2BIG;
    file.dev = st.st_dev;
    file.ino = st.st_ino;
    size_t room = (size_t)st.st_size;
    char *text = arena_get(&work->arena, room + 1);
    if (!text)
        return -ENOMEM;
    ssize_t size = root_read(work->root, fd, text, room);
    if (size < 0)
        return size == -ETIMEDOUT || size == -EFBIG ? (int)size : 0;
    is_drop_in(work, LD_COMPAT, &st);
    bool before = work->injecting;
    work->injecting |= is_drop_in(work, LD_FOLDERS, &st);
    int rc = read_lines(work, text, (size_t)size, &file);
    work->injecting = before;
    return rc;
}

int ld_conf_read(struct ld_work *work, const char *path)
{
    return read_file(work, path, NULL);
}

void ld_conf_restart(struct ld_work *work)
{
    work->dir_count = work->hwcaps_count = 0;
    work->files = 0;
}

int ld_conf_builtin(struct ld_work *work)
{
    const struct ld_arch *arch = work->profile->arch;
    int rc = 0;

    if (!work->profile->debian) {
        for (size_t i = 0; !rc && arch->folders[i]; i++)
            rc = ld_conf_folder(work, arch->folders[i], 0);
        return rc;
    }
    const char *own = arena_join(&work->arena, "/lib", arch->triplet);
    const char *usr = arena_join(&work->arena, "/usr/lib", arch->triplet);
    const char *const folders[] = {own, usr, "/lib", "/usr/lib"};
    for (size_t i = 0; !rc && i < 4; i++)
        rc = folders[i] ? ld_conf_folder(work, folders[i], 0) : -ENOMEM;
    return rc;
}
