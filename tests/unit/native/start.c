/*
 * start DIRECTORY ENVIRONMENT PROGRAM ARGV...: changes to the directory and becomes the program, with the environment that
 * the file holds byte for byte (variables end in NUL): no shell and no Python drops duplicates or orders them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
    static char text[1 << 20], *variables[1 << 16];
    FILE *file = argc > 4 ? fopen(argv[2], "re") : NULL;
    if (!file || chdir(argv[1]) != 0)
        return 98;
    size_t size = fread(text, 1, sizeof text, file), count = 0;
    fclose(file);
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        variables[count++] = text + at;
    execve(argv[3], argv + 4, variables);
    return 97;
}
