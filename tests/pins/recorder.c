/*
 * Stands in for the low-level runtime: writes down how it was started, a fact a line, a word and its bytes in hexadecimal,
 * into the file NOTES. Below a directory `quiet` it ends at once, so that nothing of it is in a count of system calls.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTES "/notes/exec"

static FILE *notes;

static void fact(const char *word, const char *bytes, size_t size)
{
    fprintf(notes, "%s ", word);
    for (size_t i = 0; i < size; i++)
        fprintf(notes, "%02x", (unsigned char)bytes[i]);
    fputc('\n', notes);
}

/* Copies the lines of a file of /proc/self that begin with one of the words. */
static void lines(const char *path, const char *word, const char *const wanted[], const char *before)
{
    char line[4096], text[4200];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        for (int i = 0; wanted[i]; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) {
                line[strcspn(line, "\n")] = '\0';
                snprintf(text, sizeof text, "%s%s", before, line);
                fact(word, text, strlen(text));
            }
    if (file)
        fclose(file);
}

/* The signals that are ignored, but 32 and 33: these are the C library's own, and whoever started the tests left them so. */
static void ignored_signals(void)
{
    static const char name[] = "SigIgn:\t";
    char line[256], text[64];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0) {
            unsigned long long set = strtoull(line + sizeof name - 1, NULL, 16) & ~(3ULL << 31);
            snprintf(text, sizeof text, "%s%016llx", name, set);
            fact("status", text, strlen(text));
        }
    if (file)
        fclose(file);
}

static void descriptors(void)
{
    static const char *const wanted[] = {"flags:", NULL};
    for (int number = 0; number < 256; number++) {
        char link[64], target[4096], text[4200];
        snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        ssize_t size = number == fileno(notes) ? -1 : readlink(link, target, sizeof target);
        if (size < 0)
            continue;
        snprintf(link, sizeof link, "/proc/self/fdinfo/%d", number);
        snprintf(text, sizeof text, "%d %.*s ", number, (int)size, target);
        lines(link, "fd", wanted, text);
    }
}

/* What comes through a descriptor or stands in a file that a verb is given. */
static void content(const char *word, FILE *file)
{
    static char text[1 << 20];
    size_t size = file ? fread(text, 1, sizeof text, file) : 0;
    if (size)
        fact(word, text, size);
    if (file)
        fclose(file);
}

int main(int argc, char *argv[], char *environment[])
{
    static const char *const wanted[] = {"Umask:", "SigBlk:", NULL};
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0 && strstr(path, "/quiet/"))
        return 0;
    notes = fopen(NOTES, "we");
    if (!notes)
        return 99;
    for (int i = 0; i < argc; i++)
        fact("argv", argv[i], strlen(argv[i]));
    for (char **variable = environment; *variable; variable++)
        fact("env", *variable, strlen(*variable));
    if (getcwd(path, sizeof path))
        fact("cwd", path, strlen(path));
    descriptors();
    lines("/proc/self/status", "status", wanted, "");
    ignored_signals();
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i - 1];
        if (strcmp(name, "--process") == 0 || strcmp(name, "-p") == 0 || strcmp(name, "--resources") == 0)
            content("given", strcmp(argv[i], "-") == 0 ? fdopen(dup(0), "r") : fopen(argv[i], "re"));
    }
    return fclose(notes) == 0 ? 0 : 99;
}
