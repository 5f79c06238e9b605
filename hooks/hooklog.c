/*
 * The line of shim's log for a hook that could not do its work.
 *
 * A container starts without the work of such a hook, and no runtime shows what a hook writes to stderr when it ends with
 * status 0; crun shows it never. The file is that of creates (shim/create/log.py), with a verb of its own. It is there as
 * soon as a create has injected anything, so it is never made here: where a configuration names another, or in a
 * container's user namespace, nothing is written.
 */
#define _GNU_SOURCE
#include "hook.h"
#include "report.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG "/var/log/shim.log"

/* Whether this is a file into which nobody but root writes. */
static bool is_the_log(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

void hook_log(const struct hook_call *call, const char *hook, const char *text)
{
    static char id[4096], bundle[16384], cause[2048], name[256], line[24576];
    char now[21];
    cleanup_fd int fd = open(LOG, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || !is_the_log(fd))
        return;
    stamp(now, time(NULL));
    escape(id, sizeof id, call->id ? call->id : "", true);
    escape(bundle, sizeof bundle, call->bundle, true);
    escape(name, sizeof name, hook, true);
    escape(cause, sizeof cause, text, true);
    int size = snprintf(line, sizeof line,
                        "{\"time\": \"%s\", \"verb\": \"hook\", \"id\": \"%s\", \"bundle\": \"%s\", "
                        "\"outcome\": \"failed\", \"hook\": \"%s\", \"text\": \"%s\"}\n",
                        now, id, bundle, name, cause);
    ssize_t written = size < (int)sizeof line ? write(fd, line, (size_t)size) : 0; /* one write: lines do not mix */
    (void)written;
}
