// The newest version of each call of the driver (stubs.py writes the table from cuda.h).
#pragma once

struct NewestName {
  const char* base;
  const char* newest;
};
extern "C" const NewestName gpu_emulator_newest_names[];  // ends with nulls
