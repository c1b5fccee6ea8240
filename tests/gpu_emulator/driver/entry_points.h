// Tables that stubs.py writes from cuda.h: the newest version of each call of the driver.
#pragma once

struct NewestName {
  const char* base;
  const char* newest;
};
extern "C" const NewestName gpu_emulator_newest_names[];  // ends with nulls

// The names of the driver's results, also by stubs.py.
struct ErrorName {
  int number;
  const char* name;
};
extern "C" const ErrorName gpu_emulator_error_names[];  // ends with a null
