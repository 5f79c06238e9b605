/*
 * The ld.so.cache of a root, byte for byte as the ldconfig of the root's own libc writes it.
 *
 *     profile     which ldconfig             ldprofile.c
 *     directories ld.so.conf, built-in ones  ldconf.c, ldglob.c
 *     lent        files to be mounted        ldlent.c
 *     listing     names, files, link texts   ldlist.c, ldcrew.c, lddir.c, elf.c, elffile.c
 *     search      links, entries             ldscan.c, ldlinks.c
 *     encode      order, strings, file       ldencode.c
 *
 * No program of the image and no ldconfig of the host is started, no namespace is created, nothing is mounted.
 * ldconfig's auxiliary cache is neither read nor written.
 */
#define _GNU_SOURCE
#include "ldwork.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char cache_path[] = "/etc/ld.so.cache";
static const char conf_path[] = "/etc/ld.so.conf";
static const char conf_folder[] = "/etc/ld.so.conf.d";
static const char drop_in[] = LD_FOLDERS_DROP_IN;
static const char include_all[] = "include /etc/ld.so.conf.d/*.conf\n";

enum { MEMORY = 48 << 20, DROP_IN = 64 * 1024 };

static int folders_text(const struct ld_options *options, char *text, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < options->folder_count; i++) {
        const char *folder = options->folders[i];
        if (*folder != '/' || strpbrk(folder, "\n#"))
            return -EINVAL;
        int length = snprintf(text + used, room - used, "%s\n", folder);
        if (length < 0 || (size_t)length >= room - used)
            return -E2BIG;
        used += (size_t)length;
    }
    return (int)used;
}

/* Writes the folders to a file of a fixed name, so that an ldconfig which is run in the container later finds them, too.
 * The file is replaced, never appended to; a file with the same content is left alone. */
static int write_drop_in(const struct root *root, const struct ld_options *options, struct fault *fault)
{
    char text[DROP_IN];
    struct stat st;

    if (!options->folder_count)
        return 0;
    int length = folders_text(options, text, sizeof text);
    if (length < 0)
        return fault_set(fault, -length, "folders for %s", drop_in);
    if (root_lstat(root, conf_path, &st) == -ENOENT) {
        int rc = root_replace(root, conf_path, include_all, sizeof include_all - 1, 0644);
        if (rc)
            return fault_set(fault, -rc, "cannot make %s", conf_path);
    }
    if (root_holds(root, drop_in, text, (size_t)length))
        return 0;
    int rc = root_mkdir(root, conf_folder, 0755);
    if (!rc)
        rc = root_replace(root, drop_in, text, (size_t)length, 0644);
    return rc ? fault_set(fault, -rc, "cannot write %s", drop_in) : 0;
}

/* The mount point of a future mount: if it is missing, it is created as the low-level runtime would create it. */
static int find_point(const struct root *root, struct ld_source *source)
{
    struct stat host, st;
    int rc = root_stat(root, source->path, &st);

    if (rc == -ENOENT && stat(source->source, &host) == 0 && S_ISDIR(host.st_mode)) {
        rc = root_mkdir(root, source->path, 0755);
    } else if (rc == -ENOENT) {
        rc = root_mkdir_parent(root, source->path, 0755);
        if (!rc)
            rc = root_replace(root, source->path, "", 0, 0755);
    }
    if (!rc)
        rc = root_stat(root, source->path, &st);
    if (rc)
        return rc;
    source->dev = st.st_dev;
    source->ino = st.st_ino;
    return 0;
}

static int find_points(const struct root *root, const struct ld_options *options, struct fault *fault)
{
    for (size_t i = 0; i < options->source_count; i++) {
        int rc = find_point(root, &options->sources[i]);
        if (rc)
            return fault_set(fault, -rc, "cannot make the mount point %s", options->sources[i].path);
    }
    return 0;
}

static int queue_folders(struct ld_work *work, const struct ld_options *options)
{
    int rc = 0;

    work->injecting = true;
    for (size_t i = 0; !rc && i < options->folder_count; i++)
        rc = ld_conf_folder(work, options->folders[i], 0);
    work->injecting = false;
    return rc;
}

static void find_drop_in(struct ld_work *work, int which, const char *path)
{
    struct ld_drop_in *file = &work->drop_ins[which];
    struct stat st;
    cleanup_fd int fd = root_config(work->root, path, false, &st);

    if (fd >= 0)
        *file = (struct ld_drop_in){.dev = st.st_dev, .ino = st.st_ino, .valid = true};
}

/*
 * Queues the directories. Directories of our drop-ins are searched also if the root's ld.so.conf does not include
 * these: if it is empty, lists directories or single files, or its include line ends in a carriage return. Then they
 * come first, like the directories on ldconfig's command line.
 */
static int queue_dirs(struct ld_work *work, const struct ld_options *options, bool written)
{
    if (options->links_only)
        return queue_folders(work, options);
    find_drop_in(work, LD_COMPAT, LD_COMPAT_DROP_IN);
    if (written)
        find_drop_in(work, LD_FOLDERS, LD_FOLDERS_DROP_IN);
    int rc = ld_conf_read(work, conf_path);
    bool compat = work->drop_ins[LD_COMPAT].valid && !work->drop_ins[LD_COMPAT].read;
    bool folders = options->folder_count && !work->drop_ins[LD_FOLDERS].read;
    if (!rc && (compat || folders)) {
        ld_conf_restart(work);
        if (compat)
            rc = ld_conf_read(work, LD_COMPAT_DROP_IN);
        if (!rc && folders)
            rc = queue_folders(work, options);
        rc = rc ? rc : ld_conf_read(work, conf_path);
    }
    return rc ? rc : ld_conf_builtin(work);
}

static int search(struct ld_work *work, const struct root *root, const struct ld_profile *profile,
                  const struct ld_options *options, bool written, struct fault *fault)
{
    *work = (struct ld_work){.root = root, .profile = profile};
    work->keep_links = options->keep_links;
    work->replace_empty = options->replace_empty;
    work->arena.limit = MEMORY;
    work->sources = options->sources;
    work->source_count = options->source_count;
    int rc = queue_dirs(work, options, written);
    if (rc)
        return fault_set(fault, -rc, "cannot read the root's %s", conf_path);
    rc = ld_scan(work, options->threads);
    return rc ? fault_set(fault, -rc, "cannot search the root's library directories") : 0;
}

/* A cache beside the root is mounted over the root's cache, which must exist then, as a regular file. */
static int can_cover(const struct root *root, struct fault *fault)
{
    struct stat st;
    int rc = root_lstat(root, cache_path, &st);

    if (!rc && !S_ISREG(st.st_mode))
        rc = -EINVAL;
    return rc ? fault_set(fault, -rc, "cannot cover %s", cache_path) : 0;
}

static int write_elsewhere(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        data += put;
        size -= (size_t)put;
    }
    return 0;
}

static int write_cache(struct ld_work *work, const struct ld_options *options, struct fault *fault)
{
    void *data;
    size_t size;
    int rc = ld_encode(work, &data, &size);

    if (rc)
        return fault_set(fault, -rc, "cannot make the cache");
    if (options->elsewhere) {
        rc = write_elsewhere(options->elsewhere, data, size);
        return rc ? fault_set(fault, -rc, "cannot write a cache beside the root") : 0;
    }
    rc = root_replace(work->root, cache_path, data, size, 0644);
    return rc ? fault_set(fault, -rc, "cannot write %s", cache_path) : 0;
}

static void count(struct ld_report *report, const struct ld_work *work)
{
    if (!report->remark.code)
        report->remark = work->remark;
    report->entries = (unsigned)work->item_count;
    report->links_made += work->links_made;
    report->links_removed += work->links_removed;
    report->links_refused = work->links_refused;
}

/* Whether the drop-in may be missing: its directory cannot be written, but perhaps that of the cache can. */
static bool is_dispensable(int rc)
{
    return rc == -EXDEV || rc == -ENOTDIR || rc == -EISDIR || rc == -EEXIST || rc == -ELOOP;
}

int ld_update(const struct root *root, const struct ld_options *options, struct ld_report *report, struct fault *fault)
{
    struct ld_profile profile;
    struct ld_work work;

    *report = (struct ld_report){0};
    ld_profile_find(root, &profile);
    if (options->generator && !ld_profile_name(&profile, options->generator, strlen(options->generator)))
        return fault_say(fault, EINVAL, "%s is no generator of a cache", options->generator);
    strcpy(report->generator, profile.generator);
    int rc = 0;
    bool written = false;
    if (options->elsewhere) {
        rc = can_cover(root, fault);
    } else if (!options->links_only) {
        rc = write_drop_in(root, options, &report->remark);
        written = !rc;
        if (is_dispensable(rc))
            rc = 0;
        else if (rc && fault)
            *fault = report->remark;
    }
    if (!rc)
        rc = find_points(root, options, fault);
    if (rc)
        return rc;
    rc = search(&work, root, &profile, options, written, fault);
    count(report, &work);
    /* New links are found by the next run only; after a run that changed none, a further run would find no more. */
    if (!rc && options->settle && (work.links_made || work.links_removed)) {
        arena_free(&work.arena);
        rc = search(&work, root, &profile, options, written, fault);
        count(report, &work);
    }
    if (!rc)
        rc = cover_verdict(root, 0, fault);
    if (!rc && !options->links_only)
        rc = write_cache(&work, options, fault);
    report->written = !rc && !options->links_only;
    arena_free(&work.arena);
    return rc;
}
