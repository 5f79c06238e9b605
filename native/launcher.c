/*
 * The launcher: the program that containerd, docker, podman and users start as `shim`, instead of the low-level
 * runtime. Most calls have nothing to do with devices, so it decides as early as possible what this process executes
 * next:
 *
 *     a hook                                     -> done here, see hook.c
 *     one of our commands                        -> Python, the command line
 *     a verb that makes no container             -> the low-level runtime
 *     a create in which nothing asks             -> the low-level runtime
 *     a create that was decided before           -> config.json is edited as then, and the low-level runtime
 *     a create in which something may ask        -> Python, with the facts that were determined here
 *     a create that may have devices of its own,
 *       where grants are enforced                -> Python, the same
 *     an exec into a container with a record     -> its process file gets the variables, and the low-level runtime;
 *                                                  where anything is unusual: Python, the same
 *     an update with a file of resources for
 *       a container with a record                -> the resources get the device rules, the rest as for exec
 *     an update that may open hardware, where
 *       grants are enforced                      -> Python
 *
 * The rows for create also apply to run and restore.
 *
 * The executed program gets the same pid, environment, descriptors, umask and working directory. stdin is read for such
 * an update only, and replaced by a file with the same text or more. For Python a few variables are renamed (python.c).
 *
 * All memory is static. Read from the bottom: main() is the table above.
 */
#define _GNU_SOURCE
#include "call.h"
#include "commands.h"
#include "execenv.h"
#include "execute.h"
#include "hardware.h"
#include "hook.h"
#include "lowlevel.h"
#include "places.h"
#include "python.h"
#include "repeat.h"
#include "scan.h"
#include "updaterules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20 };

static struct call call;      /* the command line, once it is read */
static char self[PATH_MAX];   /* path of this program */
static struct low_level low;  /* the low-level runtime */
static char record[KEY_SIZE]; /* name of the container's record */
static struct {
    char text[MAX_CONFIG + 1]; /* a byte more than the limit, to notice a larger file */
    size_t size;
    struct stat status;
    enum reading {
        CONFIG_NONE, /* it is missing, or the low-level runtime cannot read it either */
        CONFIG_UNREAD,
        CONFIG_TOO_LARGE, /* only its beginning was read */
        CONFIG_READ,
    } reading;
    bool has_hardware; /* grants are enforced, and it may have devices of its own: Python judges */
    bool is_judged;    /* grants are enforced, and it has none */
} config;

static bool is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* --- this program ----------------------------------------------------------------------------------------------- */

static void find_self(void)
{
    static const char gone[] = " (deleted)";
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0)
        give_up("SHIM_BROKEN", "mount /proc", "/proc/self/exe cannot be read");
    self[size] = '\0';
    /* the kernel adds this when the file was replaced since this process began: only its directory matters */
    if (size > (ssize_t)sizeof gone && is_same(self + size - (sizeof gone - 1), gone))
        self[size - (ssize_t)(sizeof gone - 1)] = '\0';
}

/* --- the low-level runtime -------------------------------------------------------------------------------------- */

/* Finds the low-level runtime by the administrator's link for this launcher's name, else by search. */
static void find_low_level(const char *name)
{
    low_level_begin(&low, "", name, "/proc/self/exe");
    switch (low_level_by_link(&low)) {
    case LOW_LEVEL_FOUND:
        return;
    case LOW_LEVEL_NO_LINK:
        give_up("LOWLEVEL_MISSING", "make it a link to the runtime, with ln -s", "%s is not a symbolic link", low.link);
    case LOW_LEVEL_RELATIVE:
        give_up("LOWLEVEL_MISSING", "let it point to an absolute path", "%s points to \"%s\"", low.link, low.path);
    case LOW_LEVEL_SELF:
        give_up("LOWLEVEL_MISSING", "let it point to the real runtime", "%s points to %s, which is shim itself",
                low.link, low.path);
    case LOW_LEVEL_MISSING:
        break;
    }
    if (low_level_by_search(&low, getenv("PATH")) == LOW_LEVEL_FOUND)
        return;

    char remedy[2 * PATH_MAX];
    snprintf(remedy, sizeof remedy, "install it, or say where it is: ln -s /path/to/it %s", low.link);
    if (*low.own)
        give_up("LOWLEVEL_MISSING", remedy, "there is no low-level runtime: the only %s found, %s, is shim itself",
                low.wanted, low.own);
    give_up("LOWLEVEL_MISSING", remedy,
            "there is no low-level runtime: no %s in the directories for programs or in PATH", low.wanted);
}

/* --- does anything ask? ----------------------------------------------------------------------------------------- */

/* Opens a path; -errno on failure. */
static int open_at(int directory, const char *path, int flags)
{
    int fd = openat(directory, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Finds the config.json that the low-level runtime will read, with O_PATH: a writer of a FIFO would notice an open. */
static int find_config(void)
{
    if (call.config)
        return open_at(AT_FDCWD, call.config, O_PATH);
    if (!call.bundle)
        return open_at(AT_FDCWD, "config.json", O_PATH);
    cleanup_fd int bundle = open_at(AT_FDCWD, call.bundle, O_PATH | O_DIRECTORY);
    return bundle < 0 ? bundle : open_at(bundle, "config.json", O_PATH);
}

/* Opens the file of an O_PATH descriptor to read it; -EINVAL unless it is a regular file. */
static int open_config(int pinned, struct stat *status)
{
    char path[sizeof "/proc/self/fd/" + 16];
    if (pinned < 0)
        return pinned;
    if (fstat(pinned, status) != 0 || !S_ISREG(status->st_mode))
        return -EINVAL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", pinned);
    return open_at(AT_FDCWD, path, O_RDONLY);
}

/* Whether a file could not be opened for lack of a resource, which may be available again a moment later. */
static bool is_shortage(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -EINTR || error == -EAGAIN;
}

enum answer {
    NOTHING_ASKS,
    LIKELY_NOT, /* nothing that is known to ask, but the configuration may know more, or a key is near: Python looks */
    MAY_ASK,
};

/*
 * Reads config.json. It is not mapped: a file that is truncated meanwhile must not end this process. A file that is
 * missing, not readable for us or not regular is left to the low-level runtime, which reports the same; after a lack of
 * descriptors or memory it could read a request. A file that exceeds MAX_CONFIG is searched by Python.
 */
static enum reading read_config(void)
{
    cleanup_fd int pinned = find_config();
    cleanup_fd int fd = open_config(pinned, &config.status);
    if (fd < 0)
        return is_shortage(fd) ? CONFIG_UNREAD : CONFIG_NONE;
    for (ssize_t part; config.size < sizeof config.text; config.size += (size_t)part) {
        part = read(fd, config.text + config.size, sizeof config.text - config.size);
        if (part < 0)
            return CONFIG_UNREAD;
        if (part == 0)
            break;
    }
    return config.size > MAX_CONFIG ? CONFIG_TOO_LARGE : CONFIG_READ;
}

/* Whether an earlier `run --device` has kept the former config.json, with which a run without the option begins. */
static bool has_original(void)
{
    static const char ending[] = ".shim-original"; /* ENDING in shim/create/original.py */
    char path[PATH_MAX];
    if (!is_same(call.verb, "run"))
        return false;
    int size = call.config ? snprintf(path, sizeof path, "%s%s", call.config, ending)
                           : snprintf(path, sizeof path, "%s/config.json%s", call.bundle ? call.bundle : ".", ending);
    return size < (int)sizeof path && access(path, F_OK) == 0;
}

static struct needle_file file;

static enum answer does_it_ask(void)
{
    config.reading = read_config();
    if (config.reading == CONFIG_UNREAD)
        return MAY_ASK;
    if (config.reading == CONFIG_NONE)
        return call.devices ? MAY_ASK : NOTHING_ASKS;
    find_needles(&file);
    if (file.enforces) {
        config.has_hardware = config.reading == CONFIG_TOO_LARGE || may_have_hardware(&call, config.text, config.size);
        config.is_judged = !config.has_hardware;
    }
    if (call.devices || config.has_hardware || asks(config.text, config.size, file.needles, file.count))
        return MAY_ASK;
    bool is_known = config.reading == CONFIG_READ && file.is_current && !call.unknown && !has_original();
    return is_known && !nearly_asks(config.text, config.size, file.needles, file.count) ? NOTHING_ASKS : LIKELY_NOT;
}

/* Whether an update asks for more than it may have, as far as that must be judged: its rules open hardware. */
static enum answer does_update_open(void)
{
    find_needles(&file);
    if ((file.is_current && !file.enforces) || !update_may_open(call.resources))
        return NOTHING_ASKS;
    return file.enforces ? MAY_ASK : LIKELY_NOT;
}

/* --- Python ----------------------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void execute_part(const char *part, char *const argv[])
{
    python_begin(self, part);
    if (is_same(part, "precreate")) /* it writes the launcher's path into the hooks that it prints */
        python_add_value("self", self);
    python_add_all(argv);
    python_execute();
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Python ignores these two itself: it must know which were ignored before, to restore that for the runtime. */
static const char *ignored_signals(void)
{
    bool pipe = is_ignored(SIGPIPE), size = is_ignored(SIGXFSZ);
    return pipe && size ? "PIPE,XFSZ" : pipe ? "PIPE" : size ? "XFSZ" : NULL;
}

/* The facts that the launcher has determined about a create, for Python. */
struct findings {
    enum answer answer;
    struct asked asked; /* with a question: Python may leave an answer to it */
    bool is_repeated;   /* the create was repeated: only records are to be cleaned up */
};

/* Executes Python with the call and the findings as words; shim/create/invocation.py reads them. */
__attribute__((noreturn)) static void execute_create(const char *name, char *const kept[], char *const devices[],
                                                     const struct findings *findings)
{
    python_begin(self, "create");
    python_add_value("low", low.path);
    python_add_value("name", name);
    python_add_value("self", self);
    python_add_value("key", record);
    for (const struct call_text *text = call_texts; text->name; text++)
        python_add_value(text->name, *(const char **)(void *)((char *)&call + text->member));
    for (int i = 0; call.injects && i < call.devices; i++)
        python_add_value("device", devices[i]);
    if (findings->answer != MAY_ASK || findings->is_repeated) /* if Python fails, the create continues without it */
        python_add("asks=0");
    if (findings->is_repeated)
        python_add("repeated=1");
    python_add_value("question", findings->asked.question);
    if (findings->asked.question)
        python_add_value("answer", findings->asked.answer);
    python_add_value("sigign", ignored_signals());
    python_add("--");
    python_add(low.path);
    python_add_all(kept + 1);
    python_execute();
}

/*
 * shim is not notified when a container is removed, so creates clean up the records. Python does that; of the repeated
 * creates each CLEANING_UP-th starts it.
 */
static bool is_to_clean_up(void)
{
    enum { CLEANING_UP = 64 };
    return getpid() % CLEANING_UP == 0;
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

int main(int argc, char *argv[])
{
    static char *kept[MAX_WORDS], *devices[MAX_WORDS];
    const char *name = argc > 0 ? last_part(argv[0]) : "shim";
    log_errors_of(&call);
    if (argc < 1 || argc >= MAX_WORDS)
        give_up("SHIM_BROKEN", "pass less, and a name to be called by", "a command line of %d words", argc);
    int first;
    bool vendor;
    if (is_hook_call(argc, argv, &first, &vendor))
        return run_hooks(argc, argv, first, vendor);
    find_self();
    if (is_our_command(name, argc, argv)) {
        if (is_python_hook(argc, argv, "netdevices"))
            execute_part("netdevices", argv + 3);
        if (is_python_hook(argc, argv, "precreate"))
            execute_part("precreate", argv + 3);
        execute_part("cli", argv);
    }

    /* by the grammar of the launcher's name, so that a missing runtime is reported in --log, too */
    parse_call(grammar_of(name), argc, argv, &call, kept, devices);
    find_low_level(name);
    if (grammar_of(low.path) != grammar_of(name))
        parse_call(grammar_of(low.path), argc, argv, &call, kept, devices);
    if (call.asks_help && is_same(name, "shim"))
        dprintf(STDOUT_FILENO,
                "--device KIND=NAME, in front of or behind the verb, injects a device; `shim help %s` says more.\n"
                "The other options are those of %s:\n\n",
                call.verb, low.path);
    record_key(record, name, call.root, call.id);
    enum answer answer = call.injects ? does_it_ask() : call.resources ? does_update_open() : NOTHING_ASKS;
    bool is_recorded = (call.process || call.resources) && call.id && has_record(record);
    if (is_recorded && answer == NOTHING_ASKS &&
        (call.process ? complete_exec(&call, name, record) : complete_update(&call, name, record)))
        is_recorded = false;
    if (answer == NOTHING_ASKS && !is_recorded)
        execute_low_level(low.path, kept);
    const struct create create = {&call,  devices,     name,        self,          low.path,
                                  record, config.text, config.size, config.status, config.is_judged};
    struct findings findings = {.answer = answer};
    findings.is_repeated = answer == MAY_ASK && config.reading == CONFIG_READ && !config.has_hardware &&
                           !has_original() && repeat_create(&create, &findings.asked);
    if (findings.is_repeated && !is_to_clean_up())
        execute_low_level(low.path, kept);
    if (answer != MAY_ASK || findings.is_repeated)
        fall_back_to(low.path, kept);
    execute_create(name, kept, devices, &findings);
}
