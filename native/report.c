/*
 * The error line of a launcher or hook.
 *
 * Engines show one line, the last of the --log file or of stderr. docker and podman search the text for the usual words
 * of a missing file and change the exit status to 127 or 126, so those words are never used here. The time is UTC and
 * computed here: the C library's gmtime() would read the file that TZ names.
 */
#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_LINE = 8192, STAMP = sizeof "2026-11-29T15:24:00Z" };

/* In Python: _REASONS in shim/base/paths.py. */
static const struct {
    int error;
    const char *words;
} problems[] = {
    {ENOENT,       "it is missing"                                    },
    {EACCES,       "it is not accessible to this user"                },
    {EPERM,        "access is not allowed"                            },
    {ENOTDIR,      "it is not a directory, or lies below a file"      },
    {EISDIR,       "it is a directory"                                },
    {ELOOP,        "its links form a loop"                            },
    {ENAMETOOLONG, "the path is too long"                             },
    {ENXIO,        "it is a socket, or a device without driver"       },
    {EMFILE,       "this process has no file descriptor left (EMFILE)"},
    {ENFILE,       "the system has no file descriptor left (ENFILE)"  },
    {ENOSPC,       "the file system is full"                          },
    {EDQUOT,       "the disk quota is used up"                        },
    {EROFS,        "the file system is read-only"                     },
    {EEXIST,       "it exists already"                                },
    {EIO,          "the disk reports an error (EIO)"                  },
    {ENOEXEC,      "it is not a program for this machine"             },
    {E2BIG,        "the command line and the environment are too long"},
};

const char *problem(int error)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (problems[i].error == error)
            return problems[i].words;
    return strerror(error);
}

/* RFC 3629: the shortest form, no surrogates. */
size_t character_size(const char *characters)
{
    const unsigned char *text = (const unsigned char *)characters;
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    unsigned char low = 0x80, high = 0xbf;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    if (first == 0xe0)
        low = 0xa0;
    if (first == 0xed)
        high = 0x9f;
    if (first == 0xf0)
        low = 0x90;
    if (first == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return size;
}

void escape(char *out, size_t room, const char *text, bool quotes)
{
    while (*text) {
        unsigned char c = (unsigned char)*text;
        size_t size = character_size(text);
        char coded[8];
        size_t coded_size = 6;
        if (size == 0)
            memcpy(coded, "\\ufffd", 7);
        else if (c < 0x20 || c == 0x7f)
            snprintf(coded, sizeof coded, "\\u%04x", c);
        else if (quotes && (c == '"' || c == '\\')) {
            coded[0] = '\\';
            coded[1] = (char)c;
            coded_size = 2;
        } else
            memcpy(coded, text, coded_size = size);
        if (coded_size >= room)
            break;
        memcpy(out, coded, coded_size);
        out += coded_size;
        room -= coded_size;
        text += size ? size : 1;
    }
    *out = '\0';
}

/* The calendar counts from a first of March, so that the leap day comes last in its year. */
void stamp(char *out, long now)
{
    long second = now % 86400, day = now / 86400 + 719468;
    long era = day / 146097, day_of_era = day % 146097;
    long year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    long day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    long march = (5 * day_of_year + 2) / 153;
    long month = march < 10 ? march + 3 : march - 9;
    long year = era * 400 + year_of_era + (month <= 2);
    /* the remainders limit the length of each number for the compiler's check */
    snprintf(out, STAMP, "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)year % 10000, (unsigned)month % 100,
             (unsigned)(day_of_year - (153 * march + 2) / 5 + 1) % 100, (unsigned)(second / 3600) % 100,
             (unsigned)(second / 60) % 60, (unsigned)second % 60);
}

/* A line that cannot be written is lost: there is nowhere left to report it. One write, so that lines do not mix. */
static void put_line(int fd, const char *line, size_t size)
{
    ssize_t written = write(fd, line, size);
    (void)written;
}

static void append_to_log(const char *log, const char *log_format, const char *quoted)
{
    char line[MAX_LINE + 128], now[STAMP];
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    cleanup_fd int fd = open(log, flags, 0644);
    if (fd < 0)
        return;
    stamp(now, time(NULL));
    int size;
    if (log_format && strcmp(log_format, "json") == 0)
        size = snprintf(line, sizeof line, "{\"level\":\"error\",\"msg\":\"%s\",\"time\":\"%s\"}\n", quoted, now);
    else
        size = snprintf(line, sizeof line, "time=\"%s\" level=error msg=\"%s\"\n", now, quoted);
    put_line(fd, line, (size_t)size);
}

/* Whether a log is podman's, by its name: podman puts the runtime's name before its text, "shim: shim: ..." */
static bool is_of_podman(const char *log)
{
    static const char ending[] = "/oci-log"; /* PODMAN_LOG in shim/create/report.py */
    size_t size = strlen(log), last = sizeof ending - 1;
    return size >= last && strcmp(log + size - last, ending) == 0;
}

/* The log first: containerd shows it, and standard error may be a pipe without a reader. */
void report(const char *log, const char *log_format, const char *message)
{
    char text[MAX_LINE];
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    bool is_ignored = sigaction(SIGPIPE, &ignore, &before) == 0;
    if (log) {
        static const char name[] = "shim: ";
        bool is_named = is_of_podman(log) && strncmp(message, name, sizeof name - 1) == 0;
        escape(text, sizeof text, message + (is_named ? sizeof name - 1 : 0), true);
        append_to_log(log, log_format, text);
    }
    escape(text, sizeof text - 1, message, false);
    size_t size = strlen(text);
    text[size] = '\n';
    put_line(STDERR_FILENO, text, size + 1);
    if (is_ignored)
        sigaction(SIGPIPE, &before, NULL);
}
