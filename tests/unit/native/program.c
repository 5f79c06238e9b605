/*
 * A program that writes down how it was started, into the file named after itself with ".seen" at its end: one line a
 * fact, a word and its bytes in hexadecimal. It stands in for a low-level runtime and for the Python interpreter.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *seen;

static void fact(const char *word, const char *bytes, size_t size)
{
    fprintf(seen, "%s ", word);
    for (size_t i = 0; i < size; i++)
        fprintf(seen, "%02x", (unsigned char)bytes[i]);
    fputc('\n', seen);
}

static void descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char link[300], target[4096], text[4400];
        int number = -1;
        if (sscanf(entry->d_name, "%d", &number) != 1 || number == dirfd(directory) || number == fileno(seen))
            continue;
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(link, target, sizeof target);
        snprintf(text, sizeof text, "%d %.*s", number, (int)size, target);
        fact("fd", text, strlen(text));
    }
    closedir(directory);
}

/* What the kernel tells about signals and the umask. */
static void status(void)
{
    static const char *const wanted[] = {"Umask:", "SigBlk:", "SigIgn:"};
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (fgets(line, sizeof line, file))
        for (int i = 0; i < 3; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
                fact("status", line, strcspn(line, "\n"));
    fclose(file);
}

int main(int argc, char *argv[], char *environment[])
{
    char path[4096 + 8];
    ssize_t size = readlink("/proc/self/exe", path, 4096);
    strcpy(path + size, ".seen");
    seen = fopen(path, "we");
    if (!seen)
        return 99;
    for (int i = 0; i < argc; i++)
        fact("arg", argv[i], strlen(argv[i]));
    for (char **variable = environment; *variable; variable++)
        fact("env", *variable, strlen(*variable));
    if (getcwd(path, sizeof path))
        fact("cwd", path, strlen(path));
    descriptors();
    status();
    return 0;
}
