/* A libdxcore for tests. ADAPTERS is a list of {WDDM version, driver store}; OLD leaves out D3DKMTEnumAdapters3. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FAILED ((int32_t)0xC0000001)

static const struct {
    uint32_t version;
    const char *store;
} adapters[] = {ADAPTERS};

enum { COUNT = sizeof adapters / sizeof *adapters };

struct info {
    uint32_t handle, luid_low;
    int32_t luid_high;
    uint32_t sources;
    int32_t regions;
};

struct query {
    uint32_t handle, type;
    void *data;
    uint32_t size;
};

struct registry {
    uint32_t type, flags;
    uint16_t name[260];
    uint32_t value_type, physical, size, status;
    uint16_t output[4];
};

static int32_t list(uint32_t *count, struct info *infos)
{
#ifdef HANGS
    sleep(1000);
#endif
#ifdef CRASHES
    raise(SIGSEGV);
#endif
#ifdef REFUSES
    return FAILED;
#endif
    if (infos)
        for (uint32_t number = 0; number < *count && number < COUNT; number++)
            infos[number].handle = 0x40000000 + number;
    *count = COUNT;
    return 0;
}

int32_t D3DKMTEnumAdapters2(void *request);
int32_t D3DKMTEnumAdapters3(void *request);
int32_t D3DKMTQueryAdapterInfo(struct query *query);

int32_t D3DKMTEnumAdapters2(void *request)
{
    struct {
        uint32_t count;
        struct info *infos;
    } *fields = request;
    return list(&fields->count, fields->infos);
}

#ifndef OLD
int32_t D3DKMTEnumAdapters3(void *request)
{
    struct {
        uint64_t filter;
        uint32_t count;
        struct info *infos;
    } *fields = request;
    if (fields->filter != 1)
        return FAILED;
    return list(&fields->count, fields->infos);
}
#endif

int32_t D3DKMTQueryAdapterInfo(struct query *query)
{
    uint32_t number = query->handle - 0x40000000;
    if (number >= COUNT || !adapters[number].version)
        return FAILED;
    if (query->type == 13 && query->size == sizeof(uint32_t)) {
        memcpy(query->data, &adapters[number].version, sizeof(uint32_t));
        return 0;
    }
    struct registry *registry = query->data;
    if (query->type != 48 || query->size < sizeof *registry || registry->type != 2)
        return FAILED;
    uint32_t length = (uint32_t)strlen(adapters[number].store) + 1;
    registry->size = length * 2;
    registry->status = query->size < sizeof *registry + registry->size;
    for (uint32_t at = 0; !registry->status && at < length; at++)
        registry->output[at] = (uint16_t)adapters[number].store[at];
    return 0;
}
