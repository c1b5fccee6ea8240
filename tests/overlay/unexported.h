// Functions of a shared library that its table of all symbols names, but that it does not export.
#ifndef XLA_SHMEM_TESTS_OVERLAY_UNEXPORTED_H_
#define XLA_SHMEM_TESTS_OVERLAY_UNEXPORTED_H_

// The address of function `name` in the library that `exported` lies in. Ends the process if the library does not name
// it.
void* FindUnexported(const void* exported, const char* name);

#endif  // XLA_SHMEM_TESTS_OVERLAY_UNEXPORTED_H_
