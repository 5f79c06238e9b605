/*
 * The command line with which the launcher executes Python, and the environment that Python gets.
 *
 * The interpreter and the modules are those that `make install` wrote into lib/shim/launch beside the launcher's
 * directory, else those of the virtual environment into which pip installed the launcher.
 *
 * LD_PRELOAD and similar variables have no effect on the launcher, a static program. For Python they are renamed, so
 * that they have no effect there either; Python restores the names for the low-level runtime.
 */
#define _GNU_SOURCE
#include "python.h"
#include "execute.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP "SHIM_KEEP_"
#define LAUNCH "%s/lib/shim/launch"

enum { MAX_LAUNCH = 2 * PATH_MAX };

static char interpreter[PATH_MAX + 64];
static char modules[PATH_MAX + 64];
static char reinstall[2 * PATH_MAX + 128];

/* The words of the command line and of the environment, each list ended by NULL. */
static struct {
    char *words[MAX_WORDS];
    size_t count;
    char text[MAX_TEXT];
    size_t used;
} out;

__attribute__((noreturn)) static void refuse_length(void)
{
    give_up("SHIM_BROKEN", "pass less", "%s: %s", interpreter, problem(E2BIG));
}

void python_add(const char *word)
{
    if (out.count == MAX_WORDS)
        refuse_length();
    out.words[out.count++] = (char *)word;
}

/* Adds a word, the concatenation of two texts. */
static void add_joined(const char *before, const char *after)
{
    size_t first = strlen(before), second = strlen(after);
    char *word = out.text + out.used;
    if (first + second + 1 > sizeof out.text - out.used)
        refuse_length();
    memcpy(word, before, first);
    memcpy(word + first, after, second + 1);
    out.used += first + second + 1;
    python_add(word);
}

void python_add_value(const char *name, const char *value)
{
    char key[32];
    if (!value)
        return;
    snprintf(key, sizeof key, "%s=", name);
    add_joined(key, value);
}

void python_add_all(char *const words[])
{
    for (char *const *word = words; *word; word++)
        python_add(*word);
}

/* Removes the last part of a path. */
static void cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

/* Copies the first line of a text and returns the rest; NULL unless the line is an absolute path that fits. */
static char *take_path(char *text, char *path)
{
    size_t size = text ? strcspn(text, "\n") : 0;
    if (!text || text[0] != '/' || size >= PATH_MAX || text[size] != '\n')
        return NULL;
    text[size] = '\0';
    strcpy(path, text);
    return text + size + 1;
}

/* Finds Python and the modules by the file that `make install` wrote. False if there is no such file. */
static bool find_installed(const char *prefix)
{
    static char text[MAX_LAUNCH + 2];
    char path[PYTHON_PATH];
    snprintf(path, sizeof path, LAUNCH, prefix);
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

/*
 * Finds the modules in a virtual environment: of its directories lib/python3.N those of the highest N that has them.
 * The launcher is the same for every Python. An environment that was moved to a newer Python has two such directories.
 */
static void find_modules(const char *prefix)
{
    static const char beginning[] = "python3.";
    char library[PATH_MAX + 8], program[PATH_MAX + 96];
    long highest = -1;
    snprintf(library, sizeof library, "%s/lib", prefix);
    snprintf(modules, sizeof modules, "%s/python3/site-packages", library); /* for a message, where there are none */
    DIR *dir = opendir(library);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, beginning, sizeof beginning - 1) != 0)
            continue;
        char *end;
        long minor = strtol(entry->d_name + sizeof beginning - 1, &end, 10);
        snprintf(program, sizeof program, "%s/python3.%ld/site-packages/shim/__main__.py", library, minor);
        if (*end || minor <= highest || access(program, F_OK))
            continue;
        highest = minor;
        snprintf(modules, sizeof modules, "%s/python3.%ld/site-packages", library, minor);
    }
    if (dir)
        closedir(dir);
}

/* Finds them in the virtual environment into which pip installed the launcher. */
static void find_in_venv(const char *prefix)
{
    snprintf(reinstall, sizeof reinstall, "python3 -m venv %s && %s/bin/pip install --force-reinstall cdi-shim", prefix,
             prefix);
    snprintf(interpreter, sizeof interpreter, "%s/bin/python3", prefix);
    find_modules(prefix);
}

/*
 * Checks that the program file is complete, by its last bytes; -EINVAL if not. The program reports a fault of a module,
 * but not of itself: an empty file ends with status 0, as if the container had been created.
 */
static int check_end(const char *program)
{
    static const char end[] = "\n# end\n";
    char tail[sizeof end - 1];
    cleanup_fd int fd = open(program, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    bool is_there = lseek(fd, -(off_t)sizeof tail, SEEK_END) >= 0 && read(fd, tail, sizeof tail) == sizeof tail;
    return is_there && memcmp(tail, end, sizeof tail) == 0 ? 0 : -EINVAL;
}

/*
 * SIGINT is blocked while Python starts: before the first line of our program it would end in a traceback. With this
 * word shim/__main__.py unblocks it, with its default action. The hook netdevices does not get the word: to stop in the
 * middle of its work would be worse than a late end.
 */
static bool holds_interrupt;
static bool has_locale; /* the part runs in the caller's locale */
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

/* Finds Python and the modules for a launcher, and writes the parent of its directory. Returns whether by `launch`. */
static bool find(const char *launcher, char prefix[PATH_MAX])
{
    strcpy(prefix, launcher);
    cut_last_part(prefix);
    cut_last_part(prefix);
    if (find_installed(prefix))
        return true;
    find_in_venv(prefix);
    return false;
}

bool python_files(const char *launcher, char launch[PYTHON_PATH], char hot[PYTHON_PATH])
{
    char prefix[PATH_MAX];
    bool is_installed = find(launcher, prefix);
    snprintf(launch, PYTHON_PATH, LAUNCH, prefix);
    snprintf(hot, PYTHON_PATH, "%s/shim/hot", modules);
    return is_installed;
}

void python_begin(const char *launcher, const char *part)
{
    char prefix[PATH_MAX];
    find(launcher, prefix);
    const char *const options[] = {interpreter, "-I", "-S", "-B"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        python_add(options[i]);
    add_joined(modules, "/shim/__main__.py");
    int error = -check_end(out.words[out.count - 1]);
    if (error)
        give_up("SHIM_BROKEN", reinstall, "%s cannot be read: %s", out.words[out.count - 1],
                error == EINVAL ? "it is cut off" : problem(error));
    python_add(part);
    has_locale = strcmp(part, "cli") == 0;
    holds_interrupt = strcmp(part, "cli") != 0 && is_waited_for(SIGINT);
    if (holds_interrupt && strcmp(part, "netdevices") != 0)
        python_add(held);
}

/*
 * Variables that must not reach Python's loader: it would obey LD_*, and it writes into GLIBC_TUNABLES, so that the
 * value could not be passed on. Their names get a prefix. So do names that have it already: then Python can remove a
 * prefix from each name that has one. So does LC_ALL, for which Python gets a value of ours, but for the command line.
 */
static bool is_renamed(const char *variable)
{
    static const char *const beginnings[] = {"LD_", "GLIBC_TUNABLES=", KEEP, "LC_ALL="};
    size_t count = sizeof beginnings / sizeof beginnings[0] - has_locale;
    for (size_t i = 0; i < count; i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/*
 * Without a locale Python reads paths and arguments as UTF-8 whatever the engine's locale is (PEP 540), and starts 0.15 ms
 * earlier, since glibc opens no file of a locale. shim/base/execute.py removes the variable, which is the last, again.
 */
static char no_locale[] = "LC_ALL=C";

void python_execute(void)
{
    python_add(NULL);
    size_t environment = out.count;
    for (char **variable = environ; *variable; variable++) {
        if (is_renamed(*variable))
            add_joined(KEEP, *variable);
        else
            python_add(*variable);
    }
    if (!has_locale)
        python_add(no_locale);
    python_add(NULL);
    hold_interrupt(SIG_BLOCK);
    execve(interpreter, out.words, out.words + environment);
    int error = errno;
    hold_interrupt(SIG_UNBLOCK);
    give_up("SHIM_BROKEN", reinstall, "%s cannot be started: %s", interpreter, start_problem(interpreter, error));
}
