/* A libnvidia-ml for tests: GPU 0 with DRM and two MIG devices, GPU 1 with minor 7. What goes wrong is chosen by
 * macros: HANG and CRASH in nvmlInit, INIT its code, NO_MIG and NO_COUNT leave functions out, LOST is the code that GPU 1
 * answers to its minor number, MIG_LOST that of the second MIG device, VERSION that of the driver. FIRST_FORMS: functions
 * have their first form alone. It prints, too. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef MIG_LOST
#define MIG_LOST 0
#endif
#ifndef VERSION
#define VERSION "570.86.10"
#endif

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };

struct device {
    const char *uuid, *name, *bus;
    unsigned minor, gi, ci, profile, slices, compute;
    unsigned long long memory;
};

static struct device gpus[] = {
    {"GPU-00000000-aaaa", "NVIDIA H100 80GB HBM3", "00000000:17:00.0", 0, 0, 0, 0, 0, 0, 80ULL << 30},
    {"GPU-00000001-aaaa", "NVIDIA H100 80GB HBM3", "00010000:27:00.0", 7, 0, 0, 0, 0, 0, 80ULL << 30},
};
static struct device migs[] = {
    {"MIG-00000000-bbbb", "", "", 0, 3, 0, 19, 1, 1, 9856ULL << 20 },
    {"MIG-00000001-bbbb", "", "", 0, 4, 1, 47, 2, 1, 20096ULL << 20},
};

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    puts("this is no JSON");
    fflush(stdout);
#ifdef HANG
    sigset_t every;
    sigfillset(&every);
    sigprocmask(SIG_BLOCK, &every, NULL);
    for (;;)
        pause();
#endif
#ifdef CRASH
    raise(SIGSEGV);
#endif
    return INIT;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int code)
{
    (void)code;
    return "an error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "%s", VERSION);
    return 0;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
    *version = 12080;
    return 0;
}

#ifndef NO_COUNT
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}
#endif

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
    *device = gpus + index;
    return 0;
}

int nvmlDeviceGetUUID(struct device *device, char *text, unsigned size)
{
    snprintf(text, size, "%s", device->uuid);
    return 0;
}

int nvmlDeviceGetName(struct device *device, char *text, unsigned size)
{
    snprintf(text, size, "%s", device->name);
    return 0;
}

int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor)
{
    *minor = device->minor;
    return device == gpus + 1 ? LOST : 0;
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->text, sizeof pci->text, "%s", device->bus);
    return 0;
}

int nvmlDeviceGetMemoryInfo(struct device *device, unsigned long long *memory)
{
    memory[0] = device->memory;
    return 0;
}

int nvmlDeviceGetAddressingMode(struct device *device, unsigned *mode)
{
    mode[1] = 2;
    return device == gpus ? 0 : NOT_SUPPORTED;
}

#ifndef NO_MIG
int nvmlDeviceGetMigMode(struct device *device, unsigned *now, unsigned *pending)
{
    *now = *pending = device == gpus;
    return device == gpus ? 0 : NOT_SUPPORTED;
}
#endif

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count)
{
    (void)device;
    *count = 7;
    return 0;
}

/* the second has index 2 */
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **mig)
{
    (void)device;
    *mig = migs + index / 2;
    return index == 0 || index == 2 ? 0 : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(struct device *mig, unsigned *id)
{
    *id = mig->gi;
    return mig == migs + 1 ? MIG_LOST : 0;
}

int nvmlDeviceGetComputeInstanceId(struct device *mig, unsigned *id)
{
    *id = mig->ci;
    return 0;
}

struct attributes {
    unsigned engines[6], slices, compute;
    unsigned long long memory;
};

#ifdef FIRST_FORMS
#define nvmlDeviceGetAttributes_v2 nvmlDeviceGetAttributes
#define nvmlDeviceGetGpuFabricInfoV not_there
#endif

int nvmlDeviceGetAttributes_v2(struct device *mig, struct attributes *attributes)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->slices = mig->slices;
    attributes->compute = mig->compute;
    attributes->memory = mig->memory >> 20;
    return 0;
}

int nvmlDeviceGetGpuInstanceById(struct device *device, unsigned id, struct device **instance)
{
    (void)device;
    *instance = migs + (id == migs[1].gi);
    return 0;
}

struct instance {
    void *device;
    unsigned id, profile, start, size;
};

int nvmlGpuInstanceGetInfo(struct device *mig, struct instance *info)
{
    info->device = gpus;
    info->id = mig->gi;
    info->profile = mig->profile;
    return 0;
}

struct profile {
    unsigned version, id, numbers[9];
    unsigned long long memory;
    char name[96];
};

/* 40 is a number that no table has */
int nvmlDeviceGetGpuInstanceProfileInfoV(struct device *device, unsigned number, struct profile *profile)
{
    (void)device;
    if (number != 0 && number != 40)
        return NOT_SUPPORTED;
    profile->id = migs[number == 40].profile;
    snprintf(profile->name, sizeof profile->name, "%s", number ? "MIG 2g.20gb+gfx" : "MIG 1g.10gb");
    return 0;
}

/* as the last one, in the form that has no name */
int nvmlDeviceGetGpuInstanceProfileInfo(struct device *device, unsigned number, unsigned *profile)
{
    (void)device;
    if (number != 0 && number != 40)
        return NOT_SUPPORTED;
    profile[0] = migs[number == 40].profile;
    profile[2] = migs[number == 40].slices;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return 0;
}

int nvmlGpuInstanceGetComputeInstanceById(struct device *instance, unsigned id, struct device **part)
{
    (void)id;
    *part = instance;
    return 0;
}

struct part {
    void *device, *instance;
    unsigned id, profile;
};

int nvmlComputeInstanceGetInfo_v2(struct device *part, struct part *info)
{
    (void)part;
    info->profile = 5;
    return 0;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(struct device *instance, unsigned number, unsigned engine,
                                                 unsigned *profile)
{
    (void)instance;
    profile[0] = 5;
    return number == 0 && engine == 0 ? 0 : NOT_SUPPORTED;
}

struct fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

static void join(struct fabric *fabric)
{
    memset(fabric, 0, sizeof *fabric);
    fabric->cluster[0] = 0x9a;
    fabric->clique = 7;
    fabric->state = 3;
}

#ifdef FIRST_FORMS
int nvmlDeviceGetGpuFabricInfo(struct device *device, struct fabric *fabric)
{
    (void)device;
    join(fabric);
    return 0;
}
#endif

int nvmlDeviceGetGpuFabricInfoV(struct device *device, unsigned *versioned)
{
    if (device != gpus)
        return NOT_SUPPORTED;
    join((struct fabric *)(versioned + 1));
    return 0;
}
