/*
 * What an image loads into every program that lets it: a library that leaves a file behind for each process it gets into.
 * CANARY is a directory of the host, set by the compiler.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void arrive(void)
{
    char path[512];

    snprintf(path, sizeof path, CANARY "/preload-%d", (int)getpid());
    close(open(path, O_CREAT | O_WRONLY, 0644));
}
