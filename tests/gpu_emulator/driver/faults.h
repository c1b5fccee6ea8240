// What a wrong access to device memory says before it ends the process.
#pragma once

namespace emulator {

// Handles SIGSEGV and SIGBUS: names the address, the memory it lies in or lay in, who accessed it, and passes the
// signal on to the handler that was there before. Does nothing if it is installed.
void InstallFaultHandler();

}  // namespace emulator
