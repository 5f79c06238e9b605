#!/bin/bash
# Fuzz the readers of what others wrote, each from its corpus: `run.sh SECONDS [TARGET...]`, run by `make fuzz`.
#
# A target in C is a file of native/fuzz and runs under libFuzzer; one in Python is a module beside this script, run by
# the `python3` that PATH names. What is found lies in build/fuzz, where the next run begins.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for file in native/fuzz/*.c tests/fuzz/*.py; do
        name=$(basename "${file%.*}")
        # other modules in Python are used by several targets
        [[ $file == native/* && $name != replay || -d tests/fuzz/corpus/$name ]] || continue
        targets+=("$name")
    done
fi

top=$PWD
build=("$(tests/fuzz/clang.sh)" -std=gnu11 -g -O1 -fno-sanitize-recover=all -Wall -Wextra -Wshadow -Wvla -Werror '-DSHIM_VERSION="fuzz"' "-I$top/native" "-I$top/hooks")
core=build/fuzz/core

compile_core() {
    [ ! -e "$core/done" ] || return 0
    local sources=()
    for file in "$top"/native/*.c "$top"/hooks/*.c; do
        [[ $file == */launcher.c ]] || sources+=("$file")
    done
    (cd "$core" && "${build[@]}" -fsanitize=fuzzer-no-link,address,undefined -c "${sources[@]}") && touch "$core/done"
}

fuzz_native() {
    mkdir -p "build/fuzz/$1.found"
    compile_core &&
        "${build[@]}" -fsanitize=fuzzer,address,undefined -o "build/fuzz/$1" "native/fuzz/$1.c" "$core"/*.o &&
        "build/fuzz/$1" "-max_total_time=$seconds" -rss_limit_mb=4096 -artifact_prefix=build/fuzz/ "build/fuzz/$1.found" \
            "native/fuzz/corpus/$1"
}

fuzz_python() {
    (cd tests && python3 -m "fuzz.$1" --seconds "$seconds" --crashes ../build/fuzz "fuzz/corpus/$1")
}

rm -rf "$core"
mkdir -p "$core"
for target in "${targets[@]}"; do
    echo "fuzzing $target for $seconds s"
    kind=native
    [ ! -e "tests/fuzz/$target.py" ] || kind=python
    "fuzz_$kind" "$target" >"build/fuzz/$target.log" 2>&1 || { tail -n 40 "build/fuzz/$target.log"; exit 1; }
    tail -n 1 "build/fuzz/$target.log"
done
