/* A libnvidia-ml.so.1 for tests, so that the real bindings run where there is no GPU.
 *
 *   cc -shared -fPIC -O1 -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c
 *
 * Every value comes from the text file $FAKE_NVML, read again at each call, so a test changes a running machine
 * (write the new file beside it and rename it):
 *
 *   count=2   driver=570.124.06   nvml=12.570.124.06   cuda=12080
 *   init_ret=18                  nvmlInit returns this
 *   delay_us=200000              every call takes this long; delay_us.nvmlDeviceGetPowerUsage=... only that one
 *   gpu0.uuid=GPU-...            a key that is absent makes its call NOT_SUPPORTED (3), as on consumer cards
 *   gpu0.err=15                  every call on that GPU returns this; gpu0.err.nvmlDeviceGetPowerUsage=4 only that one
 *   gpu0.procs=PID:BYTES:SM:MEM:ENC:DEC,...   gpu0.gprocs=PID:BYTES (graphics); BYTES -1: not available
 *   gpu0.fi.82=61                a field value of nvmlDeviceGetFieldValues
 *
 * $FAKE_NVML_LOG names a file to which each called function's name is appended.
 * -DOLD_DRIVER leaves out the functions that drivers before R535 lack.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef int Ret;
typedef unsigned U32;
typedef unsigned long long U64;
typedef void *Handle;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { FIRST_HANDLE = 1000, MOST_PROCESSES = 64 };

static int opened;

/* ---- the text file ---- */

static int get(const char *key, char *out, size_t size)
{
	const char *path = getenv("FAKE_NVML");
	FILE *file = fopen(path ? path : "fake_nvml.conf", "re");
	char line[4096];
	size_t length = strlen(key);
	int found = 0;
	if (!file)
		return 0;
	while (fgets(line, sizeof line, file))
		if (!strncmp(line, key, length) && line[length] == '=') {
			line[strcspn(line, "\r\n")] = 0;
			snprintf(out, size, "%s", line + length + 1);
			found = 1;
		}
	fclose(file);
	return found;
}

static int number(const char *key, U64 *out)
{
	char text[128];
	if (!get(key, text, sizeof text))
		return 0;
	*out = strtoull(text, NULL, 0);
	return 1;
}

static int gpu_text(int gpu, const char *key, char *out, size_t size)
{
	char full[128];
	snprintf(full, sizeof full, "gpu%d.%s", gpu, key);
	return get(full, out, size);
}

static int gpu_number(int gpu, const char *key, U64 *out)
{
	char full[128];
	snprintf(full, sizeof full, "gpu%d.%s", gpu, key);
	return number(full, out);
}

static U32 count(void)
{
	U64 value = 0;
	number("count", &value);
	return value;
}

/* ---- what every call does first ---- */

static Ret enter(const char *function, int gpu)
{
	const char *log = getenv("FAKE_NVML_LOG");
	char key[128];
	U64 value;
	if (log) {
		FILE *file = fopen(log, "ae");
		if (file) {
			fprintf(file, "%s\n", function);
			fclose(file);
		}
	}
	snprintf(key, sizeof key, "delay_us.%s", function);
	if (number(key, &value) || number("delay_us", &value))
		usleep(value);
	if (!opened && strncmp(function, "nvmlInit", 8))
		return UNINITIALIZED;
	if (gpu < 0)
		return OK;
	if (gpu_number(gpu, "err", &value))
		return value;
	snprintf(key, sizeof key, "err.%s", function);
	return gpu_number(gpu, key, &value) ? (Ret)value : OK;
}

#define EXPORT __attribute__((visibility("default")))
#define ENTER()                                                                                                        \
	do {                                                                                                           \
		Ret ret_ = enter(__func__, -1);                                                                        \
		if (ret_)                                                                                              \
			return ret_;                                                                                   \
	} while (0)
#define ENTER_GPU(handle)                                                                                              \
	int gpu = (int)(size_t)(handle)-FIRST_HANDLE;                                                                  \
	do {                                                                                                           \
		Ret ret_ = enter(__func__, gpu);                                                                       \
		if (ret_)                                                                                              \
			return ret_;                                                                                   \
	} while (0)

/* ---- the library and the machine ---- */

static Ret init(const char *function)
{
	U64 value;
	enter(function, -1);
	if (number("init_ret", &value) && value)
		return value;
	opened++;
	return OK;
}

EXPORT Ret nvmlInit(void) { return init(__func__); }
EXPORT Ret nvmlInit_v2(void) { return init(__func__); }
EXPORT Ret nvmlInitWithFlags(U32 flags) { return (void)flags, init(__func__); }

EXPORT Ret nvmlShutdown(void)
{
	ENTER();
	opened--;
	return OK;
}

EXPORT const char *nvmlErrorString(Ret ret)
{
	switch (ret) {
	case 0: return "Success";
	case 1: return "Uninitialized";
	case 2: return "Invalid Argument";
	case 3: return "Not Supported";
	case 4: return "Insufficient Permissions";
	case 6: return "Not Found";
	case 7: return "Insufficient Size";
	case 9: return "Driver Not Loaded";
	case 13: return "Function Not Found";
	case 15: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

#define SYSTEM_TEXT(function, key)                                                                                     \
	EXPORT Ret function(char *out, U32 size)                                                                       \
	{                                                                                                              \
		ENTER();                                                                                               \
		return get(key, out, size) ? OK : NOT_SUPPORTED;                                                       \
	}
SYSTEM_TEXT(nvmlSystemGetDriverVersion, "driver")
SYSTEM_TEXT(nvmlSystemGetNVMLVersion, "nvml")

EXPORT Ret nvmlSystemGetCudaDriverVersion_v2(int *out)
{
	U64 value;
	ENTER();
	if (!number("cuda", &value))
		return NOT_SUPPORTED;
	*out = value;
	return OK;
}
EXPORT Ret nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

/* ---- handles ---- */

EXPORT Ret nvmlDeviceGetCount_v2(U32 *out)
{
	ENTER();
	*out = count();
	return OK;
}

EXPORT Ret nvmlDeviceGetHandleByIndex_v2(U32 index, Handle *out)
{
	Ret ret = index < count() ? enter(__func__, index) : INVALID;
	*out = (Handle)(size_t)(FIRST_HANDLE + index);
	return ret;
}

static Ret handle_by(const char *key, const char *text, Handle *out)
{
	char own[256];
	for (U32 i = 0; i < count(); i++)
		if (gpu_text(i, key, own, sizeof own) && !strcmp(own, text)) {
			*out = (Handle)(size_t)(FIRST_HANDLE + i);
			return OK;
		}
	return NOT_FOUND;
}

EXPORT Ret nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out)
{
	ENTER();
	return handle_by("uuid", uuid, out);
}

EXPORT Ret nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Handle *out)
{
	ENTER();
	return handle_by("busid", bus, out);
}

EXPORT Ret nvmlDeviceGetIndex(Handle handle, U32 *out)
{
	ENTER_GPU(handle);
	*out = gpu;
	return OK;
}
EXPORT Ret nvmlDeviceGetMinorNumber(Handle handle, U32 *out) { return nvmlDeviceGetIndex(handle, out); }

/* ---- one text, one number ---- */

#define TEXT(function, key)                                                                                            \
	EXPORT Ret function(Handle handle, char *out, U32 size)                                                        \
	{                                                                                                              \
		ENTER_GPU(handle);                                                                                     \
		return gpu_text(gpu, key, out, size) ? OK : NOT_SUPPORTED;                                             \
	}
#define NUMBER(function, key)                                                                                          \
	EXPORT Ret function(Handle handle, U32 *out)                                                                   \
	{                                                                                                              \
		U64 value;                                                                                             \
		ENTER_GPU(handle);                                                                                     \
		if (!gpu_number(gpu, key, &value))                                                                     \
			return NOT_SUPPORTED;                                                                          \
		*out = value;                                                                                          \
		return OK;                                                                                             \
	}
#define LONG_NUMBER(function, key)                                                                                     \
	EXPORT Ret function(Handle handle, U64 *out)                                                                   \
	{                                                                                                              \
		ENTER_GPU(handle);                                                                                     \
		return gpu_number(gpu, key, out) ? OK : NOT_SUPPORTED;                                                 \
	}
/* A getter that takes a selector (a clock, a sensor) and finds its value under key + selector. */
#define SELECTED(function, key)                                                                                        \
	EXPORT Ret function(Handle handle, U32 which, U32 *out)                                                        \
	{                                                                                                              \
		char full[64];                                                                                         \
		U64 value;                                                                                             \
		ENTER_GPU(handle);                                                                                     \
		snprintf(full, sizeof full, "%s%u", key, which);                                                       \
		if (!gpu_number(gpu, full, &value))                                                                    \
			return NOT_SUPPORTED;                                                                          \
		*out = value;                                                                                          \
		return OK;                                                                                             \
	}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetFanSpeed, "fan")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetDisplayActive, "display")
NUMBER(nvmlDeviceGetDisplayMode, "display")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replay")
LONG_NUMBER(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
LONG_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
SELECTED(nvmlDeviceGetTemperature, "temp")          /* temp0: the GPU's own sensor */
SELECTED(nvmlDeviceGetTemperatureThreshold, "temp_thr")
SELECTED(nvmlDeviceGetClockInfo, "clock")           /* clock0 graphics, 1 SM, 2 memory, 3 video */
SELECTED(nvmlDeviceGetMaxClockInfo, "max_clock")
SELECTED(nvmlDeviceGetPcieThroughput, "pcie_kbs")   /* pcie_kbs0 sent, 1 received */

/* ---- records ---- */

EXPORT Ret nvmlDeviceGetUtilizationRates(Handle handle, U32 *out)
{
	U64 busy, memory = 0;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "util", &busy))
		return NOT_SUPPORTED;
	gpu_number(gpu, "memutil", &memory);
	out[0] = busy;
	out[1] = memory;
	return OK;
}

static int memory_of(int gpu, U64 *total, U64 *used, U64 *reserved)
{
	*used = *reserved = 0;
	gpu_number(gpu, "mem_used", used);
	gpu_number(gpu, "mem_reserved", reserved);
	return gpu_number(gpu, "mem_total", total);
}

EXPORT Ret nvmlDeviceGetMemoryInfo(Handle handle, U64 *out) /* total, free, used with what is reserved */
{
	U64 total, used, reserved;
	ENTER_GPU(handle);
	if (!memory_of(gpu, &total, &used, &reserved))
		return NOT_SUPPORTED;
	out[0] = total;
	out[1] = total - used - reserved;
	out[2] = used + reserved;
	return OK;
}

EXPORT Ret nvmlDeviceGetPciInfo_v3(Handle handle, void *out)
{
	struct {
		char legacy[16];
		U32 domain, bus, device, device_id, subsystem_id;
		char bus_id[32];
	} info = {0};
	ENTER_GPU(handle);
	if (!gpu_text(gpu, "busid", info.bus_id, sizeof info.bus_id))
		return NOT_SUPPORTED;
	sscanf(info.bus_id, "%x:%x:%x", &info.domain, &info.bus, &info.device);
	snprintf(info.legacy, sizeof info.legacy, "%04x:%02x:%02x.0", info.domain & 0xffff, info.bus & 0xff,
		 info.device & 0xff);
	memcpy(out, &info, sizeof info);
	return OK;
}

EXPORT Ret nvmlDeviceGetMigMode(Handle handle, U32 *current, U32 *pending)
{
	U64 value;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "mig", &value))
		return NOT_SUPPORTED;
	*current = *pending = value;
	return OK;
}

/* ---- processes ---- */

struct process {
	U32 pid;
	U64 bytes;
	U32 gpu_instance, compute_instance;
};

static Ret processes(int gpu, const char *key, U32 *size, struct process *out)
{
	char text[4096], *rest = NULL;
	struct process found[MOST_PROCESSES];
	U32 n = 0;
	if (!gpu_text(gpu, key, text, sizeof text))
		text[0] = 0;
	for (char *one = strtok_r(text, ",", &rest); one && n < MOST_PROCESSES; one = strtok_r(NULL, ",", &rest), n++) {
		long long bytes = 0;
		found[n] = (struct process){.gpu_instance = ~0u, .compute_instance = ~0u};
		sscanf(one, "%u:%lld", &found[n].pid, &bytes);
		found[n].bytes = bytes;
	}
	if (n && (*size < n || !out)) {
		*size = n;
		return TOO_SMALL;
	}
	if (n)
		memcpy(out, found, n * sizeof *out);
	*size = n;
	return OK;
}

#define PROCESSES(function, key)                                                                                       \
	EXPORT Ret function(Handle handle, U32 *size, struct process *out)                                             \
	{                                                                                                              \
		ENTER_GPU(handle);                                                                                     \
		return processes(gpu, key, size, out);                                                                 \
	}
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "procs")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "gprocs")

/* ---- what came with newer drivers ---- */

#ifndef OLD_DRIVER

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "procs")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "gprocs")
LONG_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, "throttle")

EXPORT Ret nvmlDeviceGetMemoryInfo_v2(Handle handle, void *out)
{
	struct {
		U32 version;
		U64 total, reserved, free, used;
	} info;
	ENTER_GPU(handle);
	memcpy(&info, out, sizeof info);
	if (!memory_of(gpu, &info.total, &info.used, &info.reserved))
		return NOT_SUPPORTED;
	info.free = info.total - info.used - info.reserved;
	memcpy(out, &info, sizeof info);
	return OK;
}

EXPORT Ret nvmlDeviceGetTemperatureV(Handle handle, void *inout)
{
	struct {
		U32 version, sensor;
		int celsius;
	} reading;
	char key[32];
	U64 value;
	ENTER_GPU(handle);
	memcpy(&reading, inout, sizeof reading);
	snprintf(key, sizeof key, "temp%u", reading.sensor);
	if (!gpu_number(gpu, key, &value))
		return NOT_SUPPORTED;
	reading.celsius = value;
	memcpy(inout, &reading, sizeof reading);
	return OK;
}

struct field {
	U32 id, scope;
	long long at_us, took_us;
	U32 type;
	Ret ret;
	U64 value;
};

EXPORT Ret nvmlDeviceGetFieldValues(Handle handle, int n, struct field *fields)
{
	struct timeval now;
	ENTER_GPU(handle);
	gettimeofday(&now, NULL);
	for (int i = 0; i < n; i++) {
		char key[32];
		snprintf(key, sizeof key, "fi.%u", fields[i].id);
		fields[i].at_us = now.tv_sec * 1000000LL + now.tv_usec;
		fields[i].type = 3; /* unsigned long long */
		fields[i].ret = gpu_number(gpu, key, &fields[i].value) ? OK : NOT_SUPPORTED;
	}
	return OK;
}

#endif
