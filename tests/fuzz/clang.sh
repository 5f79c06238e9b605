#!/bin/sh
# Print a clang that can link a fuzz target: one of another version may lack the library. Status 1 where there is none.
set -eu
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' >"$scratch/a.c"
for clang in clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if "$clang" -fsanitize=fuzzer,address,undefined -o "$scratch/a" "$scratch/a.c" 2>/dev/null; then
        echo "$clang"
        exit
    fi
done
exit 1
