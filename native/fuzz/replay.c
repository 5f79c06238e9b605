/*
 * Stands in for libFuzzer: `TARGET FILE...` runs the target over each file, and over each beginning of it. With any
 * compiler, so that the tests can show that the targets build and that the corpus passes.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char *argv[])
{
    static uint8_t data[1 << 16];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 2;
        }
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        for (size_t part = 0; part <= size; part++)
            LLVMFuzzerTestOneInput(data, part);
    }
    printf("%d\n", argc - 1);
    return 0;
}
