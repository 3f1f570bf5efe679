/* A libnvidia-ml.so.1 for tests, so that the real bindings run where there is no GPU.
 *
 *   cc -shared -fPIC -O1 -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c
 *
 * Every value comes from the text file $FAKE_NVML, which is read again at each call. A test can therefore change a
 * running machine, by writing a new file beside it and renaming it:
 *
 *   count=2   driver=570.124.06   nvml=12.570.124.06   cuda=12080
 *   init_ret=18                  nvmlInit returns this
 *   delay_us=200000              every call takes this long; delay_us.nvmlDeviceGetPowerUsage=... delays only that call
 *   jitter_us.nvmlDeviceGetPowerUsage=9000   this call takes a random time of up to this long
 *   gpu0.uuid=GPU-...            a key that is absent makes its call NOT_SUPPORTED (3), as on consumer cards
 *   gpu0.err=15                  every call on this GPU returns 15; gpu0.err.nvmlDeviceGetPowerUsage=4 for one call
 *   gpu0.procs=PID:BYTES:SM:MEM:ENC:DEC:INSTANCE,...   gpu0.gprocs=PID:BYTES (graphics), mprocs (MPS); -1: unknown
 *   gpu0.generation=2            the GPU is lost until all users have closed the library and opened it again
 *   gpu0.fi.82=61                a field value of nvmlDeviceGetFieldValues; gpu0.fi.74.type=1 is its nvmlValueType
 *   gpu0.fi.198.per_s=1000       a field that grows by this much per second; gpu0.energy_mw=... does it for energy
 *   gpu0.samples=US:PERCENT,...  the buffer of nvmlDeviceGetSamples
 *   gpu0.gpm.2=31.5              a GPM metric; its samples must lie 100 ms apart, as on a real GPU
 *   gpm_samples=1                how many GPM samples may exist at a time
 *   gpu0.mig=1 gpu0.mig_slots=7  MIG; gpu0.mig0.gi=1 gpu0.mig0.uuid=MIG-... gpu0.mig0.mem_total=... gpu0.mig0.gpm.2=...
 *   gpu0.events=8                the event types; xid_seq=1 xid_gpu=0 xid=79 is one event each time that xid_seq grows
 *   wait_ret=999                 nvmlEventSetWait returns this
 *   gpu0.ecc00=3                 nvmlDeviceGetTotalEccErrors by type and counter; gpu0.rows=CORR,UNC,PENDING,FAILED
 *   gpu0.sram=PARITY,SECDED,CORRECTED,EXCEEDED since boot   gpu0.mem_err107=2 by type, counter, place
 *   gpu0.enc=7 dec jpg ofa       how busy an engine is   gpu0.fi.161.0=3 is a field of one link
 *   gpu0.nvlink0=1               state of a link; gpu0.fabric=STATE,STATUS
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

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15,
       NO_MEMORY = 20 };
enum { FIRST_HANDLE = 1000, MOST_PROCESSES = 64 };

static int opened, generation; /* the number of present users; how often the library went from no user to one */

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

/* A MIG device is its GPU's number plus 100 times (1 + its index). */
static int gpu_text(int gpu, const char *key, char *out, size_t size)
{
	char full[192];
	if (gpu >= 100)
		snprintf(full, sizeof full, "gpu%d.mig%d.%s", gpu % 100, gpu / 100 - 1, key);
	else
		snprintf(full, sizeof full, "gpu%d.%s", gpu, key);
	return get(full, out, size);
}

static int gpu_number(int gpu, const char *key, U64 *out)
{
	char text[128];
	if (!gpu_text(gpu, key, text, sizeof text))
		return 0;
	*out = strtoull(text, NULL, 0);
	return 1;
}

static U64 now_us(void)
{
	struct timeval now;
	gettimeofday(&now, NULL);
	return now.tv_sec * 1000000ULL + now.tv_usec;
}

static U32 count(void)
{
	U64 value = 0;
	number("count", &value);
	return value;
}

/* ---- the first steps of every call ---- */

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
	snprintf(key, sizeof key, "jitter_us.%s", function);
	if (number(key, &value) && value)
		usleep(rand() % value);
	if (!opened && strncmp(function, "nvmlInit", 8))
		return UNINITIALIZED;
	if (gpu < 0)
		return OK;
	if (gpu_number(gpu, "generation", &value) && (U64)generation < value)
		return LOST;
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
	generation += !opened++;
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

/* ---- getters of one text or one number ---- */

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
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_gen_gpu")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending")

/* A counter that grows by a fixed amount per second, so that its rate is known. */
static U64 grown(U64 per_s) { return (unsigned __int128)per_s * now_us() / 1000000; }

/* energy_mw: the power at which the energy counter grows. */
EXPORT Ret nvmlDeviceGetTotalEnergyConsumption(Handle handle, U64 *out)
{
	U64 power;
	ENTER_GPU(handle);
	if (gpu_number(gpu, "energy_mw", &power)) {
		*out = grown(power);
		return OK;
	}
	return gpu_number(gpu, "energy_mj", out) ? OK : NOT_SUPPORTED;
}
LONG_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
SELECTED(nvmlDeviceGetTemperature, "temp")          /* temp0: the sensor of the GPU */
SELECTED(nvmlDeviceGetTemperatureThreshold, "temp_thr")
SELECTED(nvmlDeviceGetClockInfo, "clock")           /* clock0 graphics, 1 SM, 2 memory, 3 video */
SELECTED(nvmlDeviceGetMaxClockInfo, "max_clock")
SELECTED(nvmlDeviceGetPcieThroughput, "pcie_kbs")   /* pcie_kbs0 sent, 1 received */

/* Functions that other monitors call, and that no test of ours needs. */
#define UNSUPPORTED(function)                                                                                          \
	EXPORT Ret function(Handle handle)                                                                             \
	{                                                                                                              \
		ENTER_GPU(handle);                                                                                     \
		return NOT_SUPPORTED;                                                                                  \
	}
UNSUPPORTED(nvmlDeviceGetDriverModel)
UNSUPPORTED(nvmlDeviceGetDriverModel_v2)

/* How busy an engine is, and the driver's sampling period. */
#define ENGINE(function, key)                                                                                          \
	EXPORT Ret function(Handle handle, U32 *out, U32 *period_us)                                                   \
	{                                                                                                              \
		U64 value;                                                                                             \
		ENTER_GPU(handle);                                                                                     \
		*period_us = 167000;                                                                                   \
		if (!gpu_number(gpu, key, &value))                                                                     \
			return NOT_SUPPORTED;                                                                          \
		*out = value;                                                                                          \
		return OK;                                                                                             \
	}
ENGINE(nvmlDeviceGetEncoderUtilization, "enc")
ENGINE(nvmlDeviceGetDecoderUtilization, "dec")
#ifndef OLD_DRIVER
ENGINE(nvmlDeviceGetJpgUtilization, "jpg")
ENGINE(nvmlDeviceGetOfaUtilization, "ofa")
#endif

EXPORT Ret nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor)
{
	char text[32];
	ENTER_GPU(handle);
	return gpu_text(gpu, "capability", text, sizeof text) && sscanf(text, "%d.%d", major, minor) == 2 ? OK
													    : NOT_SUPPORTED;
}

EXPORT Ret nvmlDeviceIsMigDeviceHandle(Handle handle, U32 *out)
{
	ENTER_GPU(handle);
	*out = gpu >= 100;
	return OK;
}

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

EXPORT Ret nvmlDeviceGetMemoryInfo(Handle handle, U64 *out) /* total, free, and used, which includes reserved memory */
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
enum { SM = 2, INSTANCE = 6 };

/* The n-th colon-separated part of one process; 0 if it is missing. */
static long long part(const char *one, int n)
{
	for (; n && one; n--)
		one = strchr(one, ':') ? strchr(one, ':') + 1 : NULL;
	return one ? strtoll(one, NULL, 0) : 0;
}

static Ret processes(int gpu, const char *key, U32 *size, struct process *out)
{
	char text[4096], *rest = NULL;
	struct process found[MOST_PROCESSES];
	U32 n = 0;
	if (!gpu_text(gpu, key, text, sizeof text))
		text[0] = 0;
	for (char *one = strtok_r(text, ",", &rest); one && n < MOST_PROCESSES; one = strtok_r(NULL, ",", &rest), n++) {
		long long instance = part(one, INSTANCE);
		found[n] = (struct process){part(one, 0), part(one, 1), instance ? (U32)instance : ~0u, ~0u};
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

struct utilization {
	U32 pid;
	U64 at_us;
	U32 sm, memory, encoder, decoder;
};

EXPORT Ret nvmlDeviceGetProcessUtilization(Handle handle, struct utilization *out, U32 *size, U64 since)
{
	char text[4096], *rest = NULL;
	struct utilization found[MOST_PROCESSES];
	U64 value;
	U32 n = 0;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "util", &value))
		return NOT_SUPPORTED;
	if (!gpu_text(gpu, "procs", text, sizeof text))
		text[0] = 0;
	for (char *one = strtok_r(text, ",", &rest); one && n < MOST_PROCESSES; one = strtok_r(NULL, ",", &rest))
		if (part(one, SM) && now_us() > since)
			found[n++] = (struct utilization){part(one, 0), now_us(), part(one, SM), part(one, SM + 1), 0, 0};
	if (!n)
		return NOT_FOUND;
	if (!out || *size < n) {
		*size = n;
		return TOO_SMALL;
	}
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

/* ---- functions of newer drivers ---- */

#ifndef OLD_DRIVER

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "procs")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "gprocs")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mprocs")
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
	ENTER_GPU(handle);
	for (int i = 0; i < n; i++) {
		char key[64], typed[80], growing[80];
		U64 type, per_s;
		snprintf(key, sizeof key, "fi.%u.%u", fields[i].id, fields[i].scope);
		if (!gpu_number(gpu, key, &type))
			snprintf(key, sizeof key, "fi.%u", fields[i].id);
		snprintf(typed, sizeof typed, "%s.type", key);
		snprintf(growing, sizeof growing, "%s.per_s", key);
		fields[i].at_us = now_us();
		fields[i].type = gpu_number(gpu, typed, &type) ? type : 3; /* 3: unsigned long long */
		fields[i].ret = gpu_number(gpu, key, &fields[i].value) ? OK : NOT_SUPPORTED;
		if (gpu_number(gpu, growing, &per_s)) {
			fields[i].value = grown(per_s);
			fields[i].ret = OK;
		}
	}
	return OK;
}

/* ---- health and limits ---- */

NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_slots")
NUMBER(nvmlDeviceGetGpuInstanceId, "gi")

EXPORT Ret nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, U32 index, Handle *out)
{
	U64 value;
	ENTER_GPU(handle);
	*out = (Handle)(size_t)(FIRST_HANDLE + gpu + 100 * (1 + index));
	return gpu_number(gpu + 100 * (1 + index), "gi", &value) ? OK : NOT_FOUND;
}

EXPORT Ret nvmlDeviceGetEccMode(Handle handle, U32 *now, U32 *pending)
{
	U64 value;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "ecc_mode", &value))
		return NOT_SUPPORTED;
	*now = *pending = value;
	return OK;
}

EXPORT Ret nvmlDeviceGetTotalEccErrors(Handle handle, U32 type, U32 counter, U64 *out)
{
	char key[32];
	ENTER_GPU(handle);
	snprintf(key, sizeof key, "ecc%u%u", type, counter);
	return gpu_number(gpu, key, out) ? OK : NOT_SUPPORTED;
}

EXPORT Ret nvmlDeviceGetMemoryErrorCounter(Handle handle, U32 type, U32 counter, U32 place, U64 *out)
{
	char key[32];
	ENTER_GPU(handle);
	snprintf(key, sizeof key, "mem_err%u%u%u", type, counter, place);
	return gpu_number(gpu, key, out) ? OK : NOT_SUPPORTED;
}

EXPORT Ret nvmlDeviceGetSramEccErrorStatus(Handle handle, void *inout)
{
	struct {
		U32 version;
		U64 life[3], now[3]; /* parity, SECDED, corrected */
		U64 places[5];
		U32 exceeded;
	} *status = inout;
	char text[128];
	ENTER_GPU(handle);
	if (status->version != (sizeof *status | 1u << 24))
		return INVALID;
	if (!gpu_text(gpu, "sram", text, sizeof text))
		return NOT_SUPPORTED;
	return sscanf(text, "%llu,%llu,%llu,%u", &status->now[0], &status->now[1], &status->now[2], &status->exceeded) == 4
		       ? OK
		       : INVALID;
}

EXPORT Ret nvmlDeviceGetRemappedRows(Handle handle, U32 *corrected, U32 *uncorrected, U32 *pending, U32 *failed)
{
	char text[64];
	ENTER_GPU(handle);
	if (!gpu_text(gpu, "rows", text, sizeof text))
		return NOT_SUPPORTED;
	return sscanf(text, "%u,%u,%u,%u", corrected, uncorrected, pending, failed) == 4 ? OK : INVALID;
}

EXPORT Ret nvmlDeviceGetPowerManagementLimitConstraints(Handle handle, U32 *least, U32 *most)
{
	U64 low, high;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "power_min_mw", &low) || !gpu_number(gpu, "power_max_mw", &high))
		return NOT_SUPPORTED;
	*least = low;
	*most = high;
	return OK;
}

EXPORT Ret nvmlDeviceGetMarginTemperature(Handle handle, void *inout)
{
	struct {
		U32 version;
		int margin;
	} *info = inout;
	U64 value;
	ENTER_GPU(handle);
	if (!gpu_number(gpu, "margin", &value))
		return NOT_SUPPORTED;
	info->margin = (int)value;
	return OK;
}

EXPORT Ret nvmlDeviceGetNvLinkState(Handle handle, U32 link, U32 *out)
{
	char key[32];
	U64 value;
	ENTER_GPU(handle);
	snprintf(key, sizeof key, "nvlink%u", link);
	if (!gpu_number(gpu, key, &value))
		return INVALID;
	*out = value;
	return OK;
}

EXPORT Ret nvmlDeviceGetGpuFabricInfoV(Handle handle, void *inout)
{
	struct {
		U32 version;
		unsigned char cluster[16];
		Ret status;
		U32 clique;
		unsigned char state;
		U32 health;
	} *info = inout;
	char text[32];
	U32 state;
	ENTER_GPU(handle);
	if (!gpu_text(gpu, "fabric", text, sizeof text) || sscanf(text, "%u,%d", &state, &info->status) != 2)
		return NOT_SUPPORTED;
	info->state = state;
	return OK;
}

/* ---- the sample buffer ---- */

struct sample {
	U64 at_us;
	U64 value;
};

EXPORT Ret nvmlDeviceGetSamples(Handle handle, U32 type, U64 since, U32 *value_type, U32 *size, struct sample *out)
{
	char text[4096], *rest = NULL;
	struct sample found[256];
	U32 n = 0;
	ENTER_GPU(handle);
	if (type != 1 || !gpu_text(gpu, "samples", text, sizeof text))
		return NOT_SUPPORTED;
	for (char *one = strtok_r(text, ",", &rest); one && n < 256; one = strtok_r(NULL, ",", &rest))
		if ((U64)part(one, 0) > since)
			found[n++] = (struct sample){part(one, 0), part(one, 1)};
	*value_type = 1; /* unsigned int */
	if (!n)
		return NOT_FOUND;
	if (out)
		memcpy(out, found, (*size < n ? *size : n) * sizeof *out);
	*size = n;
	return OK;
}

/* ---- GPM ---- */

enum { GPM_MOST = 333, APART_US = 100000 };

struct gpm_sample {
	int gpu, instance;
	U64 at_us;
};

EXPORT Ret nvmlGpmQueryDeviceSupport(Handle handle, U32 *out)
{
	U64 value = 0;
	ENTER_GPU(handle);
	gpu_number(gpu, "gpm", &value);
	out[1] = value;
	return OK;
}

static U64 gpm_samples;

EXPORT Ret nvmlGpmSampleAlloc(struct gpm_sample **out)
{
	U64 most;
	ENTER();
	if (number("gpm_samples", &most) && gpm_samples >= most)
		return NO_MEMORY;
	gpm_samples++;
	*out = calloc(1, sizeof **out);
	return OK;
}

EXPORT Ret nvmlGpmSampleFree(struct gpm_sample *sample)
{
	ENTER();
	gpm_samples--;
	free(sample);
	return OK;
}

EXPORT Ret nvmlGpmSampleGet(Handle handle, struct gpm_sample *sample)
{
	U64 mig = 0;
	ENTER_GPU(handle);
	gpu_number(gpu, "mig", &mig);
	if (mig)
		return NOT_SUPPORTED;
	*sample = (struct gpm_sample){gpu, -1, now_us()};
	return OK;
}

EXPORT Ret nvmlGpmMigSampleGet(Handle handle, U32 instance, struct gpm_sample *sample)
{
	U64 value;
	ENTER_GPU(handle);
	for (int i = 0; i < 16; i++)
		if (gpu_number(gpu + 100 * (1 + i), "gi", &value) && value == instance) {
			*sample = (struct gpm_sample){gpu + 100 * (1 + i), i, now_us()};
			return OK;
		}
	return NOT_FOUND;
}

struct gpm_metric {
	U32 id;
	Ret ret;
	double value;
	const char *names[3];
};

struct gpm_get {
	U32 version, n;
	struct gpm_sample *first, *second;
	struct gpm_metric metrics[GPM_MOST];
};

EXPORT Ret nvmlGpmMetricsGet(struct gpm_get *get_)
{
	ENTER();
	if (get_->version != 1 || get_->first->gpu != get_->second->gpu ||
	    get_->second->at_us < get_->first->at_us + APART_US)
		return INVALID;
	for (U32 i = 0; i < get_->n; i++) {
		struct gpm_metric *one = &get_->metrics[i];
		char key[32], text[64];
		snprintf(key, sizeof key, "gpm.%u", one->id);
		one->ret = gpu_text(get_->second->gpu, key, text, sizeof text) ? OK : NOT_SUPPORTED;
		if (!one->ret)
			one->value = atof(text);
	}
	return OK;
}

/* ---- events ---- */

static U64 delivered;

EXPORT Ret nvmlEventSetCreate(void **out)
{
	ENTER();
	delivered = 0;
	number("xid_seq", &delivered);
	*out = &delivered;
	return OK;
}

EXPORT Ret nvmlEventSetFree(void *set)
{
	ENTER();
	return (void)set, OK;
}

EXPORT Ret nvmlDeviceGetSupportedEventTypes(Handle handle, U64 *out)
{
	ENTER_GPU(handle);
	*out = 0;
	gpu_number(gpu, "events", out);
	return OK;
}

EXPORT Ret nvmlDeviceRegisterEvents(Handle handle, U64 types, void *set)
{
	ENTER_GPU(handle);
	return (void)types, (void)set, OK;
}

struct event {
	Handle device;
	U64 type, data;
	U32 gpu_instance, compute_instance;
};

EXPORT Ret nvmlEventSetWait_v2(void *set, struct event *out, U32 timeout_ms)
{
	U64 sequence, gpu = 0, xid = 0;
	ENTER();
	if (number("wait_ret", &sequence) && sequence)
		return (Ret)sequence;
	for (U32 waited = 0; waited < timeout_ms; waited += 10) {
		if (number("xid_seq", &sequence) && sequence > delivered) {
			delivered = sequence;
			number("xid_gpu", &gpu);
			number("xid", &xid);
			*out = (struct event){(Handle)(size_t)(FIRST_HANDLE + gpu), 8, xid, ~0u, ~0u};
			return (void)set, OK;
		}
		usleep(10000);
	}
	return TIMEOUT;
}

#endif
