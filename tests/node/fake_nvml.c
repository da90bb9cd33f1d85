/* A stand-in for NVIDIA's management library where there is no GPU: two devices, the second of
   which tells little. The counter grows by 100 J a call; RESET: the third reading begins again.
   WITHOUT_ENERGY: a library of before Volta. */
#include <stddef.h>

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
enum { SUCCESS, NOT_SUPPORTED = 3 };
static int devices[2];

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = &devices[index];
  return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
  if (device == &devices[1]) return NOT_SUPPORTED;
  rates->gpu = 97;
  return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, memory *info) {
  if (info->version != (sizeof(memory) | 2 << 24)) return 25;
  info->total = 143771ULL << 20;
  info->used = 1024ULL << 20;
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
  *milliwatts = 100000;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) {
  *mhz = kind == 1 ? 1980 : 0;
  return SUCCESS;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
  *celsius = 43;
  return device == &devices[1] ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  *reasons = 0x4;
  return SUCCESS;
}
#ifndef WITHOUT_ENERGY
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
  static int calls[2];
  int call = ++calls[device == &devices[1]];
#ifdef RESET
  if (call >= 3) call -= 2;
#endif
  *millijoules = 100000ULL * call;
  return SUCCESS;
}
#endif
