/*
 * The launcher: what containerd, docker, podman and people start as `shim`. It stands in for the low-level
 * runtime, and most calls have nothing to do with devices, so it decides as early as it can who goes on:
 *
 *     a hook                                     -> done here, see hook.c
 *     one of our commands                        -> Python, the command line
 *     a verb that makes no container             -> the low-level runtime
 *     a create in which nothing asks             -> the low-level runtime
 *     a create in which something may ask        -> Python, with what was found out here
 *     an exec or update with a file for
 *       a container with a record                -> Python, the same
 *
 * What is said of create holds for run and restore.
 *
 * Whoever goes on gets this process: same pid, environment, descriptors, umask, working directory; stdin is not
 * read here (Python reads it for such an update, and puts the same or more in its place). The program is static:
 * LD_PRELOAD and LD_LIBRARY_PATH mean nothing to it. For Python these variables are renamed, so that they mean nothing
 * there either; Python gives them back to the low-level runtime.
 *
 * All memory is static. Read from the bottom: main() is the table above.
 */
#define _GNU_SOURCE
#include "call.h"
#include "hook.h"
#include "lowlevel.h"
#include "places.h"
#include "report.h"
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEEP "SHIM_KEEP_"

/*
 * The kernel takes at most 6 MiB of arguments and environment, the pointers to them included, so we were given no
 * more than that and may pass on no more: these numbers are out of reach.
 */
enum { MAX_WORDS = 3 << 18, MAX_TEXT = 8 << 20 };

enum { MAX_CONFIG = 16 << 20, MAX_LAUNCH = 2 * PATH_MAX };

extern char **environ;

#define ENTRIES(array) (sizeof(array) / sizeof(array)[0])

static struct call call;      /* what the command line says, once it is read */
static char self[PATH_MAX];   /* where this program lies */
static struct low_level low;  /* the low-level runtime */
static char record[KEY_SIZE]; /* what the record of the container is called */

static bool is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- giving up -------------------------------------------------------------------------------------------------- */

/*
 * The command line of the low-level runtime, where it goes on if Python cannot: an exec only lacks a variable then,
 * and it may be the probe on which a healthy container's life depends. An update goes on likewise, and so does a create
 * in which nothing that is known asks for a device.
 */
static char **otherwise;

__attribute__((noreturn)) static void become_low(char *argv[]);

/* Says "shim: ID: text (remedy)" on stderr and in the --log file, and ends. */
__attribute__((noreturn, format(printf, 3, 4))) static void give_up(const char *id, const char *remedy,
                                                                    const char *form, ...)
{
    static char text[4 * PATH_MAX], message[8 * PATH_MAX];
    if (otherwise) {
        char **argv = otherwise;
        otherwise = NULL;
        become_low(argv);
    }
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "shim: %s: %s (%s)", id, text, remedy);
    report(call.log, call.log_format, message);
    _exit(1);
}

/* Why a program could not be started. The kernel says ENOENT for one whose loader or interpreter is missing, too. */
static const char *start_problem(const char *program, int error)
{
    if (error == ENOENT && faccessat(AT_FDCWD, program, F_OK, AT_EACCESS) == 0)
        return "the loader that it names is missing";
    return problem(error);
}

/* --- who we are ------------------------------------------------------------------------------------------------- */

static void find_self(void)
{
    static const char gone[] = " (deleted)";
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0)
        give_up("SHIM_BROKEN", "mount /proc", "/proc/self/exe cannot be read");
    self[size] = '\0';
    /* the kernel says so when the file was replaced since we were started: its directory is what counts */
    if (size > (ssize_t)sizeof gone && is_same(self + size - (sizeof gone - 1), gone))
        self[size - (ssize_t)(sizeof gone - 1)] = '\0';
}

static int least(int one, int other)
{
    return one < other ? one : other;
}

/*
 * Whether two words differ in so few letters that one is probably a misspelling of the other: in one, or in two of a
 * longer noun; two letters in each other's place count once. The distance is that of optimal string alignment.
 */
static bool is_misspelt(const char *word, const char *noun)
{
    enum { LONGEST = 16 };
    int length = (int)strlen(noun), allowed = length < 5 ? 1 : 2, size = (int)strnlen(word, LONGEST);
    if (size == LONGEST || length >= LONGEST || size > length + allowed || size + allowed < length)
        return false;
    int apart[LONGEST][LONGEST]; /* the distance between the first letters of each, by their numbers */
    for (int i = 0; i <= size; i++)
        for (int j = 0; j <= length; j++) {
            if (i == 0 || j == 0) {
                apart[i][j] = i + j;
                continue;
            }
            int one_more = 1 + least(apart[i - 1][j], apart[i][j - 1]);
            apart[i][j] = least(one_more, apart[i - 1][j - 1] + (word[i - 1] != noun[j - 1]));
            if (i > 1 && j > 1 && word[i - 1] == noun[j - 2] && word[i - 2] == noun[j - 1])
                apart[i][j] = least(apart[i][j], 1 + apart[i - 2][j - 2]);
        }
    return apart[size][length] <= allowed;
}

/*
 * Whether the command line is for us and not for the runtime that we stand in for. A word that is nearly one of our
 * commands is for us, too, since the runtime's answer would not name ours; no verb of runc, crun, youki or runsc is so
 * near (a test compares them). Links named shim-X have only the hooks.
 */
static bool is_our_command(const char *name, int argc, char *const argv[])
{
    static const char *const nouns[] = {
        "cdi",  "explain", "hook",   "runtime", "device", "grant",  "gate", "doctor",
        "node", "system",  "config", "version", "help",   "--help", "-h",
    };
    if (!is_same(name, "shim"))
        return strncmp(name, "shim-", 5) == 0 && argc > 1 && is_same(argv[1], "hook");
    if (argc < 2)
        return true;
    for (size_t i = 0; i < ENTRIES(nouns); i++)
        if (is_same(argv[1], nouns[i]) || (*argv[1] != '-' && is_misspelt(argv[1], nouns[i])))
            return true;
    return false;
}

/* --- the low-level runtime -------------------------------------------------------------------------------------- */

/* Finds it by the link that the administrator set for our name, else by search. */
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

static void become_low(char *argv[])
{
    argv[0] = low.path;
    execve(low.path, argv, environ);
    give_up("LOWLEVEL_EXEC", "install it, or let the link in " LOW_LEVEL_LINKS " point to the right one",
            "the low-level runtime %s cannot be started: %s", low.path, start_problem(low.path, errno));
}

/* --- does anything ask? ----------------------------------------------------------------------------------------- */

/* Finds the config.json that the low-level runtime will read. It is not opened: whoever writes to a FIFO would notice. */
static int find_config(void)
{
    int flags = O_PATH | O_CLOEXEC;
    if (call.config)
        return open(call.config, flags);
    if (!call.bundle)
        return open("config.json", flags);
    cleanup_fd int bundle = open(call.bundle, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return bundle < 0 ? -1 : openat(bundle, "config.json", flags);
}

/* Opens a file that was found, -1 unless it is a regular one. */
static int open_config(int found)
{
    char path[sizeof "/proc/self/fd/" + 16];
    struct stat status;
    if (found < 0 || fstat(found, &status) != 0 || !S_ISREG(status.st_mode))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    return open(path, O_RDONLY | O_CLOEXEC);
}

enum answer {
    NOTHING_ASKS,
    LIKELY_NOT, /* nothing that is known to ask, but the configuration may know more: Python looks */
    MAY_ASK,
};

/*
 * Read and not mapped: a file that is cut while it is read must not end us. What cannot be opened or is no regular
 * file is left to the low-level runtime. One that is larger than any real config.json is looked through by Python.
 */
static enum answer does_config_ask(const struct needle_file *file)
{
    static char text[MAX_CONFIG + 1];
    size_t size = 0;
    cleanup_fd int found = find_config();
    cleanup_fd int fd = open_config(found);
    if (fd < 0)
        return NOTHING_ASKS;
    for (ssize_t part; size < sizeof text; size += (size_t)part) {
        part = read(fd, text + size, sizeof text - size);
        if (part < 0)
            return MAY_ASK;
        if (part == 0)
            break;
    }
    if (asks(text, size, file->needles, file->count))
        return MAY_ASK;
    if (size > MAX_CONFIG)
        return LIKELY_NOT;
    return file->is_current && !call.unknown ? NOTHING_ASKS : LIKELY_NOT;
}

static enum answer does_it_ask(void)
{
    static struct needle_file file;
    if (call.devices)
        return MAY_ASK;
    find_needles(&file);
    return does_config_ask(&file);
}

/* --- Python ----------------------------------------------------------------------------------------------------- */

static char interpreter[PATH_MAX + 64];
static char modules[PATH_MAX + 64];
static char reinstall[2 * PATH_MAX + 128];

/* The words that are made up for Python. */
static struct {
    char *words[MAX_WORDS];
    size_t count;
    char text[MAX_TEXT];
    size_t used;
} out;

/* The next word: before and after joined. */
static void add_joined(const char *before, const char *after)
{
    size_t first = strlen(before), second = strlen(after);
    char *word = out.text + out.used;
    if (out.count == ENTRIES(out.words) || first + second + 1 > sizeof out.text - out.used)
        give_up("SHIM_BROKEN", "pass less", "%s: %s", interpreter, problem(E2BIG));
    memcpy(word, before, first);
    memcpy(word + first, after, second + 1);
    out.used += first + second + 1;
    out.words[out.count++] = word;
}

/* The next word: one that is there already. NULL ends a list. */
static void add(const char *word)
{
    if (out.count == ENTRIES(out.words))
        give_up("SHIM_BROKEN", "pass less", "%s: %s", interpreter, problem(E2BIG));
    out.words[out.count++] = (char *)word;
}

/* The next word: NAME=VALUE, none without a value. */
static void add_key(const char *name, const char *value)
{
    char key[32];
    if (!value)
        return;
    snprintf(key, sizeof key, "%s=", name);
    add_joined(key, value);
}

/* Cuts the last part off a path. */
static void cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

/* Takes a line out of text and returns what follows it, or NULL unless the line is an absolute path that fits. */
static char *take_path(char *text, char *path)
{
    size_t size = text ? strcspn(text, "\n") : 0;
    if (!text || text[0] != '/' || size >= PATH_MAX || text[size] != '\n')
        return NULL;
    text[size] = '\0';
    strcpy(path, text);
    return text + size + 1;
}

/* Where Python and our modules are, by the file that `make install` wrote. False when there is no such file. */
static bool find_installed(const char *prefix)
{
    static char text[MAX_LAUNCH + 2];
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/lib/shim/launch", prefix);
    cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return false;
    strcpy(reinstall, "run `make install` again in the source tree of shim");
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (size < 0)
        give_up("SHIM_BROKEN", reinstall, "%s cannot be read: %s", path, problem(errno));
    text[size] = '\0';
    if (!take_path(take_path(text, interpreter), modules))
        give_up("SHIM_BROKEN", reinstall, "%s does not hold the interpreter and the module directory, a line each",
                path);
    return true;
}

/* Where they are in the virtual environment that pip installed us into. */
static void find_in_venv(const char *prefix)
{
    snprintf(reinstall, sizeof reinstall, "python3 -m venv %s && %s/bin/pip install --force-reinstall cdi-shim", prefix,
             prefix);
    snprintf(interpreter, sizeof interpreter, "%s/bin/python3", prefix);
    snprintf(modules, sizeof modules, "%s/" SITE_PACKAGES, prefix);
}

/*
 * Whether the program ends as it should, -EINVAL when not. Its modules report what is wrong with each other, but nothing
 * is left to report of a program that is cut off: an empty one ends with status 0, as if the container had been made.
 */
static int check_end(const char *program)
{
    static const char end[] = "\n# end\n";
    char found[sizeof end - 1];
    cleanup_fd int fd = open(program, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    bool is_there = lseek(fd, -(off_t)sizeof found, SEEK_END) >= 0 && read(fd, found, sizeof found) == sizeof found;
    return is_there && memcmp(found, end, sizeof found) == 0 ? 0 : -EINVAL;
}

/*
 * Whether SIGINT waits while Python starts: before a line of ours runs there, it would end in a traceback. The program
 * that goes on lets it through, with its default action, when it finds the word. The hook netdevices does not get the
 * word: half its work would be worse than a late end.
 */
static bool holds_interrupt;
static const char held[] = "sigint=held";

static bool is_waited_for(int number)
{
    struct sigaction action;
    sigset_t blocked;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL &&
           sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && !sigismember(&blocked, number);
}

static void hold_interrupt(int how)
{
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    if (holds_interrupt)
        sigprocmask(how, &interrupt, NULL);
}

/* Finds Python and puts the beginning of its command line down: the program that goes on, and in which part. */
static void prepare_python(const char *part)
{
    char prefix[PATH_MAX];
    strcpy(prefix, self);
    cut_last_part(prefix);
    cut_last_part(prefix);
    if (!find_installed(prefix))
        find_in_venv(prefix);
    const char *const options[] = {interpreter, "-I", "-S", "-B"};
    for (size_t i = 0; i < ENTRIES(options); i++)
        add(options[i]);
    add_joined(modules, "/shim/__main__.py");
    int error = -check_end(out.words[out.count - 1]);
    if (error)
        give_up("SHIM_BROKEN", reinstall, "%s cannot be read: %s", out.words[out.count - 1],
                error == EINVAL ? "it is cut off" : problem(error));
    add(part);
    holds_interrupt = !is_same(part, "cli") && is_waited_for(SIGINT);
    if (holds_interrupt && !is_same(part, "netdevices"))
        add(held);
}

/*
 * Variables that must not reach Python's loader: it would obey LD_*, and it writes into GLIBC_TUNABLES, so that
 * the value could not be handed on. Their names get a prefix. So do names that have it already: then Python can
 * take one prefix off whatever has one, without knowing which is which.
 */
static bool is_for_loader(const char *variable)
{
    static const char *const beginnings[] = {"LD_", "GLIBC_TUNABLES=", KEEP};
    for (size_t i = 0; i < ENTRIES(beginnings); i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* Ends the command line and starts Python. */
__attribute__((noreturn)) static void become_python(void)
{
    add(NULL);
    size_t environment = out.count;
    for (char **variable = environ; *variable; variable++) {
        if (is_for_loader(*variable))
            add_joined(KEEP, *variable);
        else
            add(*variable);
    }
    add(NULL);
    hold_interrupt(SIG_BLOCK);
    execve(interpreter, out.words, out.words + environment);
    int error = errno;
    hold_interrupt(SIG_UNBLOCK);
    give_up("SHIM_BROKEN", reinstall, "%s cannot be started: %s", interpreter, start_problem(interpreter, error));
}

__attribute__((noreturn)) static void become_part(const char *part, char *const argv[])
{
    prepare_python(part);
    for (char *const *word = argv; *word; word++)
        add(*word);
    become_python();
}

/* Podman's hook that gets a config.json; it has to know the path of the hooks that it puts in. */
__attribute__((noreturn)) static void become_precreate(char *const argv[])
{
    prepare_python("precreate");
    add_key("self", self);
    for (char *const *word = argv; *word; word++)
        add(*word);
    become_python();
}

/* A call of one of the hooks in Python, and not a question for its help. */
static bool is_python_hook(int argc, char *const argv[], const char *hook)
{
    if (argc < 3 || !is_same(argv[1], "hook") || !is_same(argv[2], hook))
        return false;
    return argc < 4 || (!is_same(argv[3], "--help") && !is_same(argv[3], "-h"));
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/*
 * Python ignores these two itself: it must know which of them were ignored before, to leave them so for the
 * runtime.
 */
static void add_ignored_signals(void)
{
    bool pipe = is_ignored(SIGPIPE), size = is_ignored(SIGXFSZ);
    if (pipe || size)
        add_joined("sigign=", pipe && size ? "PIPE,XFSZ" : pipe ? "PIPE" : "XFSZ");
}

/* Hands the call over with all that was found out; shim/create/invocation.py reads it. */
__attribute__((noreturn)) static void become_create(const char *name, char *const kept[], char *const devices[],
                                                    enum answer answer)
{
    prepare_python("create");
    add_key("low", low.path);
    add_key("name", name);
    add_key("self", self);
    add_key("key", record);
    for (const struct call_text *text = call_texts; text->name; text++)
        add_key(text->name, *(const char **)(void *)((char *)&call + text->member));
    for (int i = 0; call.injects && i < call.devices; i++)
        add_key("device", devices[i]);
    if (answer == LIKELY_NOT)
        add("asks=0");
    add_ignored_signals();
    add("--");
    add(low.path);
    for (int i = 1; i < call.kept; i++)
        add(kept[i]);
    become_python();
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

int main(int argc, char *argv[])
{
    static char *kept[MAX_WORDS], *devices[MAX_WORDS];
    const char *name = argc > 0 ? last_part(argv[0]) : "shim";
    if (argc < 1 || argc >= (int)ENTRIES(kept))
        give_up("SHIM_BROKEN", "pass less, and a name to be called by", "a command line of %d words", argc);
    int first;
    bool vendor;
    if (is_hook_call(argc, argv, &first, &vendor))
        return run_hooks(argc, argv, first, vendor);
    find_self();
    if (is_our_command(name, argc, argv)) {
        if (is_python_hook(argc, argv, "netdevices"))
            become_part("netdevices", argv + 3);
        if (is_python_hook(argc, argv, "precreate"))
            become_precreate(argv + 3);
        become_part("cli", argv);
    }

    /* by the grammar that our name promises, so that a missing runtime can be told in --log too */
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
    enum answer answer = call.injects ? does_it_ask() : NOTHING_ASKS;
    bool is_recorded = (call.process || call.resources) && call.id && has_record(record);
    if (answer == MAY_ASK)
        become_create(name, kept, devices, answer);
    if (answer == LIKELY_NOT || is_recorded) {
        otherwise = kept;
        become_create(name, kept, devices, answer);
    }
    become_low(kept);
}
