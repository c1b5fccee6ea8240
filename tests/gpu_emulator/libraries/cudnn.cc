// libcudnn.so.9 as far as XLA's compiler asks for it: it is there, and does nothing.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
extern "C" int gpu_emulator_refused(const char* name) {
  if (const char* path = getenv("GPU_EMULATOR_LOG")) {
    if (FILE* f = fopen(path, "a")) {
      fprintf(f, "[%d] refused: %s has no behaviour\n", getpid(), name);
      fclose(f);
    }
  }
  return 3000;  // CUDNN_STATUS_NOT_SUPPORTED
}
extern "C" {
int cudnnCreate(void** handle) {
  *handle = reinterpret_cast<void*>(1);
  return 0;
}
int cudnnDestroy(void*) { return 0; }
int cudnnSetStream(void*, void*) { return 0; }
size_t cudnnGetVersion() { return 91200; }
size_t cudnnGetCudartVersion() { return 13000; }
const char* cudnnGetErrorString(int) { return "emulated cuDNN"; }
int cudnnGetProperty(int which, int* value) {
  *value = which == 0 ? 9 : which == 1 ? 12 : 0;
  return 0;
}
}
