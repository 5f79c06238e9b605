/* A hook's state and a bundle's config.json of any contents, a NUL between them. The source is taken in whole, for its
 * functions that are not public. */
#define hook_target_read hook_target_read_again
#define hook_target_enter hook_target_enter_again
#include "../../hooks/hookstate.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hook_target target;
    static char path[sizeof target.root];
    const uint8_t *mark = size ? memchr(data, 0, size) : NULL;
    size_t state = mark ? (size_t)(mark - data) : size, config = mark ? size - state - 1 : 0;
    char *first = malloc(state + 1), *second = malloc(config + 1); /* the reader is told one byte less than there is */

    if (!first || !second)
        abort();
    memset(&target, 'x', sizeof target);
    target.uid = target.gid = 0;
    memset(path, 'x', sizeof path);
    *target.bundle = *target.root = *path = 0;
    memcpy(first, data, state);
    first[state] = '"';
    if (config)
        memcpy(second, mark + 1, config);
    second[config] = '"';
    if (parse_state(first, state, &target) && !memchr(target.bundle, 0, sizeof target.bundle))
        abort();
    if (parse_config(second, config, &target, path, sizeof path) && !memchr(path, 0, sizeof path))
        abort();
    if (target.uid < 0 || target.uid >= UINT32_MAX || target.gid < 0 || target.gid >= UINT32_MAX)
        abort();
    free(first);
    free(second);
    return 0;
}
