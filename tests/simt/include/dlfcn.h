// SPDX-License-Identifier: Apache-2.0
// Stand-in for dlopen: the library that the cuda device opens is ../nccl.cpp.
#pragma GCC system_header
#include_next <dlfcn.h>

#if !defined(__cplusplus) // the emulator opens real libraries
void *simt_dlopen(const char *name, int mode);
void *simt_dlsym(void *library, const char *name);
int simt_dlclose(void *library);
char *simt_dlerror(void);
#define dlopen simt_dlopen
#define dlsym simt_dlsym
#define dlclose simt_dlclose
#define dlerror simt_dlerror
#endif
