/*
 * The needles: the texts by which the request scan finds a request.
 *
 * Without a configuration there is one, built in. A configuration may have other sources; whenever Python reads it, it
 * writes the resulting needles to a file beside the index (shim/config/needles.py):
 *
 *     shim-needles 1 VERSION
 *     input DEV INO SIZE MTIME_NS CTIME_NS PATH     a configuration file as it was when it was read
 *     absent PATH                                   a file that was missing, and would have counted
 *     needle TEXT
 *     enforce                                       grants are enforced
 *     end
 *
 * The file counts while it belongs to this user, is whole and of this version, and every input is as described. With a
 * configuration but without such a file it is unknown which texts ask, so Python is executed. Then the launcher
 * searches only for likely texts: those of every built-in source, and those of a file whose inputs have changed since.
 * The result decides what happens if Python cannot run (launcher.c).
 */
#define _GNU_SOURCE
#include "places.h"
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM_FILE "/etc/shim/config.toml"
#define VENDOR_FILE "/etc/nvidia-container-runtime/config.toml"
#define FIRST_LINE "shim-needles 1 " SHIM_VERSION

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* Nanoseconds since 1970, as Python counts them. False for a time that does not fit. */
static bool nanoseconds(const struct timespec *time, int64_t *result)
{
    return !__builtin_mul_overflow((int64_t)time->tv_sec, 1000000000, result) &&
           !__builtin_add_overflow(*result, (int64_t)time->tv_nsec, result);
}

/* Whether a file is as `known` describes it: five numbers, each followed by a space, then the path. */
static bool is_unchanged(const char *known)
{
    struct stat status;
    int64_t modified, changed;
    char present[128];
    const char *path = known;
    for (int i = 0; i < 5; i++) {
        path = strchr(path, ' ');
        if (!path)
            return false;
        path++;
    }
    if (stat(path, &status) != 0 || !nanoseconds(&status.st_mtim, &modified) || !nanoseconds(&status.st_ctim, &changed))
        return false;
    int size = snprintf(present, sizeof present, "%ju %ju %jd %" PRId64 " %" PRId64 " ", (uintmax_t)status.st_dev,
                        (uintmax_t)status.st_ino, (intmax_t)status.st_size, modified, changed);
    return size == path - known && memcmp(known, present, (size_t)size) == 0;
}

static bool is_absent(const char *path)
{
    struct stat status;
    return *path && stat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* The rest of a line after a word at its beginning, NULL when the line begins otherwise. */
static const char *behind(const char *line, const char *word)
{
    size_t size = strlen(word);
    return strncmp(line, word, size) == 0 ? line + size : NULL;
}

int parse_needles(char *text, size_t size, struct needle *needles, size_t room, bool *is_current, bool *enforces)
{
    char *end = text + size;
    size_t count = 0, inputs = 0;
    bool unchanged = true;
    *enforces = false;
    if (memchr(text, '\0', size))
        return -EINVAL;
    for (char *line = text, *stop; (stop = memchr(line, '\n', (size_t)(end - line))) != NULL; line = stop + 1) {
        const char *value;
        *stop = '\0';
        if (line == text) {
            if (strcmp(line, FIRST_LINE) != 0)
                return -EINVAL;
        } else if ((value = behind(line, "input ")) != NULL) {
            unchanged = unchanged && is_unchanged(value);
            inputs++;
        } else if ((value = behind(line, "absent ")) != NULL) {
            unchanged = unchanged && is_absent(value);
            inputs++;
        } else if (strcmp(line, "enforce") == 0) {
            *enforces = true;
        } else if ((value = behind(line, "needle ")) != NULL) {
            if (value == stop)
                return -EINVAL;
            if (count == room)
                return -E2BIG;
            needles[count++] = (struct needle){value, (size_t)(stop - value)};
        } else {
            if (strcmp(line, "end") != 0 || stop + 1 != end || !inputs)
                return -EINVAL;
            *is_current = unchanged;
            return (int)count;
        }
    }
    return -EINVAL;
}

int read_needles(const char *directory, const char *name, struct needle_file *file)
{
    size_t size = 0;
    cleanup_fd int above = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (above < 0)
        return -errno;
    cleanup_fd int fd = openat(above, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!is_ours(above, S_IFDIR) || !is_ours(fd, S_IFREG))
        return -EPERM;
    for (ssize_t part; size < sizeof file->text; size += (size_t)part) {
        part = read(fd, file->text + size, sizeof file->text - size);
        if (part < 0)
            return -errno;
        if (part == 0)
            return parse_needles(file->text, size, file->needles, MAX_NEEDLES, &file->is_current, &file->enforces);
    }
    return -E2BIG;
}

/* --- the configuration ---------------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Finds the user's own configuration, if it may count: 1, and its path; 0: it may not, as for the host's root. */
static int find_own(char path[PATH_MAX])
{
    static const char file[] = "/config.toml";
    struct stat status;
    const char *home = getenv("XDG_CONFIG_HOME"), *below = "";
    if (!home || *home != '/') {
        home = getenv("HOME");
        below = "/.config";
    }
    if (!home || *home != '/' || strlen(home) + strlen(below) + sizeof "/shim" > PATH_MAX)
        return 0;
    int size = snprintf(path, PATH_MAX, "%s%s/shim", home, below);
    if (stat(path, &status) != 0 || status.st_uid != geteuid() || is_rootful())
        return 0;
    if (size + sizeof file > PATH_MAX)
        return -ENAMETOOLONG;
    strcpy(path + size, file);
    return 1;
}

/* Fills in the needles of the configuration, or of a machine without one. Returns their number; -ENOENT and others. */
static int find_file(struct needle_file *file)
{
    char own[PATH_MAX], directory[PATH_MAX], name[sizeof "needles-0123456789abcdef"] = "needles";
    const char *named = getenv("SHIM_CONFIG"), *first = SYSTEM_FILE;
    bool is_named = named && *named;
    int has_own = is_named ? 0 : find_own(own);
    if (has_own < 0)
        return has_own;
    if (is_named || has_own)
        first = is_named ? named : own;
    if (!is_named && !(has_own && exists(own)) && !exists(SYSTEM_FILE) && !exists(VENDOR_FILE)) {
        file->needles[0] = built_in_needles[0];
        file->is_current = true;
        return 1;
    }
    if (strcmp(first, SYSTEM_FILE) != 0)
        snprintf(name, sizeof name, "needles-%016" PRIx64, short_name(SHORT_NAME, first, strlen(first)));
    int problem = run_directory(directory, sizeof directory);
    return problem ? problem : read_needles(directory, name, file);
}

void find_needles(struct needle_file *file)
{
    file->is_current = file->enforces = false;
    int count = find_file(file);
    file->count = count < 0 ? 0 : (size_t)count;
    for (size_t i = 0; i < BUILT_IN_NEEDLES && !file->is_current; i++)
        file->needles[file->count++] = built_in_needles[i];
}
