/*
 * An answer: Python's decision for a question, as data. The launcher has no rules; it repeats the probes, Python's
 * questions to the host, and uses the answer only if each probe gives the same result.
 *
 *     shim-answer 1 VERSION CHECKSUM SIZE     one line; the checksum is over the SIZE bytes behind it
 *     fields                                  see shim/create/answers.py
 *
 * The checksum is the bytes as a number, the first byte the lowest, modulo a prime below 2^60: Python computes that
 * with two operations. A probe is three fields: kind, path, and the result as text:
 *
 *     l, s    lstat(2), stat(2): the numbers that Python compares for such a file; `!ERRNO`
 *     r       the text of a symbolic link
 *     m       0 or 1: whether the path leads nowhere
 *     x       0 or 1: whether this process may execute it
 *     a       an extended attribute in hexadecimal, or `!ERRNO`; the path is `NAME PATH`
 *     t       the text of a file of procfs or sysfs, whose times have no meaning
 *     e       a variable of the environment, "" when it is not set
 *
 * Which numbers these are depends on the type of the file. Times are compared for regular files, and for directories
 * that were listed: those of parent directories change for other reasons.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define FIRST_LINE "shim-answer 1 " SHIM_VERSION " "
#define CHECKSUM_PRIME ((1ull << 60) - 93)

enum { MAX_TEXT_FILE = 4096 };

/* --- fields ------------------------------------------------------------------------------------------------------- */

struct span field(struct fields *fields)
{
    size_t size = 0;
    const char *at = fields->at;
    for (; !fields->failed && at < fields->end && *at >= '0' && *at <= '9' && size <= MAX_ANSWER; at++)
        size = size * 10 + (size_t)(*at - '0');
    if (fields->failed || at == fields->at || at == fields->end || *at != ':' ||
        size > (size_t)(fields->end - at - 1)) {
        fields->failed = true;
        return (struct span){"", 0};
    }
    fields->at = at + 1 + size;
    return (struct span){at + 1, size};
}

unsigned field_count(struct fields *fields)
{
    struct span text = field(fields);
    unsigned count = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || count > MAX_ANSWER)
            fields->failed = true;
        count = count * 10 + (unsigned)(text.text[i] - '0');
    }
    return fields->failed ? 0 : count;
}

bool fields_done(const struct fields *fields)
{
    return !fields->failed && fields->at == fields->end;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

__extension__ typedef unsigned __int128 wide;

/* Eight bytes at a time: 2^64 is 16 * 93 modulo the prime. */
static uint64_t checksum(const char *bytes, size_t size)
{
    const uint64_t low = (1ull << 60) - 1;
    uint64_t sum = 0, word = 0;
    size_t rest = size % sizeof word;
    for (size_t i = 0; i < rest; i++)
        sum |= (uint64_t)(unsigned char)bytes[size - rest + i] << 8 * i;
    for (size -= rest; size; size -= sizeof word) {
        memcpy(&word, bytes + size - sizeof word, sizeof word);
        wide next = (wide)sum * 16 * 93 + le64toh(word);
        next = (next >> 60) * 93 + ((uint64_t)next & low);
        sum = (uint64_t)(next % CHECKSUM_PRIME);
    }
    return sum % CHECKSUM_PRIME;
}

static struct fields part(struct fields *fields)
{
    struct span text = field(fields);
    return (struct fields){text.text, text.text + text.size, fields->failed};
}

int answer_read(struct answer *answer, const char *bytes, size_t size)
{
    char line[sizeof FIRST_LINE + 64];
    const size_t length = sizeof FIRST_LINE - 1 + 16 + 1 + 8 + 1;
    if (size < length)
        return -EINVAL;
    snprintf(line, sizeof line, FIRST_LINE "%016llx %08zu\n",
             (unsigned long long)checksum(bytes + length, size - length), size - length);
    if (memcmp(line, bytes, length) != 0)
        return -EINVAL;
    struct fields all = {bytes + length, bytes + size, false};
    answer->question = field(&all);
    answer->log = field(&all);
    answer->probes = part(&all);
    answer->edits = part(&all);
    answer->record = part(&all);
    answer->line = part(&all);
    return fields_done(&all) ? 0 : -EINVAL;
}

/* --- probes ------------------------------------------------------------------------------------------------------- */

enum { ANSWER_ROOM = 3 * PATH_MAX };

static long long nanoseconds(const struct timespec *time)
{
    return time->tv_sec * 1000000000ll + time->tv_nsec;
}

static void describe(char out[ANSWER_ROOM], const char *path, const struct stat *status, bool with_times)
{
    unsigned mode = status->st_mode, uid = status->st_uid, gid = status->st_gid;
    unsigned long long dev = status->st_dev, ino = status->st_ino;
    switch (status->st_mode & S_IFMT) {
    case S_IFDIR:
        if (!with_times) {
            snprintf(out, ANSWER_ROOM, "%o %u %u %llu %llu", mode, uid, gid, dev, ino);
            return;
        }
        break;
    case S_IFREG:
        break;
    case S_IFLNK: {
        char target[PATH_MAX];
        ssize_t size = readlink(path, target, sizeof target);
        snprintf(out, ANSWER_ROOM, "%o %u %u %llu %llu %.*s", mode, uid, gid, dev, ino, (int)(size < 0 ? 0 : size),
                 target);
        return;
    }
    default: /* a device node: its file system does not matter */
        snprintf(out, ANSWER_ROOM, "%o %u %u %llu", mode, uid, gid, (unsigned long long)status->st_rdev);
        return;
    }
    snprintf(out, ANSWER_ROOM, "%o %u %u %llu %llu %lld %lld %lld", mode, uid, gid, dev, ino,
             (long long)status->st_size, nanoseconds(&status->st_mtim), nanoseconds(&status->st_ctim));
}

/* The text of a small file of the kernel's, cut at a NUL. */
static int read_text(char out[ANSWER_ROOM], const char *path)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, out, MAX_TEXT_FILE);
    if (size < 0)
        return -errno;
    out[size] = '\0';
    return 0;
}

static int read_attribute(char out[ANSWER_ROOM], const char *name_and_path)
{
    char name[256];
    unsigned char value[ANSWER_ROOM / 2 - 1];
    const char *space = strchr(name_and_path, ' ');
    if (!space || (size_t)(space - name_and_path) >= sizeof name)
        return -EINVAL;
    memcpy(name, name_and_path, (size_t)(space - name_and_path));
    name[space - name_and_path] = '\0';
    ssize_t size = getxattr(space + 1, name, value, sizeof value);
    if (size < 0)
        return -errno;
    for (ssize_t i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02x", value[i]);
    return 0;
}

static void set_flag(char out[ANSWER_ROOM], bool is_so)
{
    out[0] = is_so ? '1' : '0';
    out[1] = '\0';
}

/* Repeats a probe. False for an unknown kind. */
static bool ask(char out[ANSWER_ROOM], char kind, const char *path)
{
    struct stat status;
    int error = 0;
    out[0] = '\0';
    switch (kind) {
    case 'l':
    case 's':
        if ((kind == 'l' ? lstat(path, &status) : stat(path, &status)) != 0)
            error = errno;
        else
            describe(out, path, &status, kind == 's');
        break;
    case 'r': {
        ssize_t size = readlink(path, out, PATH_MAX);
        error = size < 0 ? errno : 0;
        out[size < 0 ? 0 : size] = '\0';
        break;
    }
    case 'm':
        set_flag(out, stat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP));
        break;
    case 'x':
        set_flag(out, faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0);
        break;
    case 'a':
        error = -read_attribute(out, path);
        break;
    case 't':
        error = -read_text(out, path);
        break;
    case 'e': {
        const char *value = getenv(path);
        return snprintf(out, ANSWER_ROOM, "%s", value ? value : "") < ANSWER_ROOM;
    }
    default:
        return false;
    }
    if (error)
        snprintf(out, ANSWER_ROOM, "!%d", error);
    return true;
}

bool answer_is_current(const struct answer *answer)
{
    static char now[ANSWER_ROOM];
    struct fields probes = answer->probes;
    char path[PATH_MAX + 256];
    for (unsigned left = field_count(&probes); left; left--) {
        struct span kind = field(&probes), where = field(&probes), known = field(&probes);
        if (probes.failed || kind.size != 1 || where.size >= sizeof path || memchr(where.text, '\0', where.size))
            return false;
        memcpy(path, where.text, where.size);
        path[where.size] = '\0';
        if (!ask(now, *kind.text, path) || strlen(now) != known.size || memcmp(now, known.text, known.size) != 0)
            return false;
    }
    return fields_done(&probes);
}
