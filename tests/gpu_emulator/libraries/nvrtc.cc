// libnvrtc.so.13: compiles device code with clang, whose PTX the emulated driver interprets. So our own kernels run on
// the emulator from the source that a GPU gets, with the interpreter's checks. NVIDIA's compiler takes no part.
//
// A source may use the language and what device_builtins.h declares. Signatures and numbers as in nvrtc.h of CUDA 13.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

enum Result : int {
  kSuccess = 0,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
  kInternalError = 11,
};

constexpr int kArchitectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
  std::string source, name;
  std::string log, ptx;
  bool compiled = false;
  bool has_cubin = false;
  int architecture = 75;
};

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

std::string Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[17];
  snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

// Reads "--gpu-architecture=sm_90", "--std=c++17" and "--fmad=false"; adds any other option to the log.
bool ReadOption(const std::string& option, Program* program, std::string* standard) {
  const size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (name == "--std" || name == "-std") {
    *standard = value;
    return value == "c++11" || value == "c++14" || value == "c++17" || value == "c++20";
  }
  if (name == "--fmad" || name == "-fmad") return value == "false";
  if (name == "--gpu-architecture" || name == "-arch") {
    const bool real = value.rfind("sm_", 0) == 0, virtual_one = value.rfind("compute_", 0) == 0;
    program->has_cubin = real;
    const int number = real || virtual_one ? atoi(value.c_str() + value.find('_') + 1) : 0;
    program->architecture = number;
    return std::find(std::begin(kArchitectures), std::end(kArchitectures), number) != std::end(kArchitectures);
  }
  return false;
}

// Compiles once for all processes: the PTX lies in the build folder, under a name that its origin determines.
Result Compile(Program* program, const std::string& standard) {
  const std::string builtins = GPU_EMULATOR_DEVICE_BUILTINS;
  // sm_80, because the emulator has no later instructions; the source sees the architecture that was asked for. All
  // functions inlined: the interpreter has no calls.
  const std::string architecture = std::to_string(10 * program->architecture);
  // A CUDA toolkit of the machine would choose the version of PTX.
  const std::string options =
      " -x cuda --cuda-path=/nonexistent --cuda-feature=+ptx75 --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc "
      "-nocudalib -nostdinc"
      " -Wno-unknown-cuda-version -ffp-contract=off -mllvm -inline-all-viable-calls -O2 -S"
      " -Wno-builtin-macro-redefined -U__CUDA_ARCH__ -D__CUDA_ARCH__=" +
      architecture + " -std=" + standard + " -include " + Quoted(builtins);
  const std::string key =
      Hash(program->source + '\0' + program->name + '\0' + options + '\0' + Read(builtins) + GPU_EMULATOR_ZIG);
  const std::string folder = GPU_EMULATOR_COMPILED;
  const std::string result = folder + "/" + key + ".ptx";
  program->ptx = Read(result);
  if (!program->ptx.empty()) return kSuccess;
  mkdir(folder.c_str(), 0777);
  std::string temporary = folder + "/XXXXXX";
  if (mkdtemp(temporary.data()) == nullptr) return kInternalError;
  const std::string source = temporary + "/source.cu", ptx = temporary + "/ptx", log = temporary + "/log";
  std::ofstream(source) << "#line 1 \"" << program->name << "\"\n" << program->source;
  // The libraries and sanitizers of this process are not the compiler's.
  const std::string command = "env -u LD_PRELOAD -u LD_LIBRARY_PATH " + Quoted(GPU_EMULATOR_ZIG) + " clang" + options +
                              " -o " + Quoted(ptx) + " " + Quoted(source) + " 2> " + Quoted(log);
  const int status = std::system(command.c_str());
  program->log = Read(log);
  program->ptx = Read(ptx);
  const bool kept = status == 0 && !program->ptx.empty() && rename(ptx.c_str(), result.c_str()) == 0;
  for (const std::string& file : {source, ptx, log}) unlink(file.c_str());
  rmdir(temporary.c_str());
  return kept ? kSuccess : status == 0 ? kInternalError : kCompilation;
}

// Sizes count the NUL at the end.
Result GetSize(Program* program, const std::string& text, size_t* bytes) {
  if (program == nullptr || bytes == nullptr) return kInvalidInput;
  *bytes = text.size() + 1;
  return kSuccess;
}
Result GetText(Program* program, const std::string& text, char* to) {
  if (program == nullptr || to == nullptr) return kInvalidInput;
  memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption:
      return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilation:
      return "NVRTC_ERROR_COMPILATION";
    case kInternalError:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

int nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return kInvalidInput;
  *major = 13;
  *minor = 0;
  return kSuccess;
}

int nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return kInvalidInput;
  *count = static_cast<int>(std::size(kArchitectures));
  return kSuccess;
}

int nvrtcGetSupportedArchs(int* architectures) {
  if (architectures == nullptr) return kInvalidInput;
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return kSuccess;
}

int nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers, const char* const*,
                       const char* const*) {
  // Headers are not needed by what runs here.
  if (program == nullptr || source == nullptr || headers != 0) return kInvalidInput;
  *program = new Program;
  (*program)->source = source;
  (*program)->name = name == nullptr ? "default_program" : name;
  return kSuccess;
}

int nvrtcDestroyProgram(Program** program) {
  if (program == nullptr || *program == nullptr) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kSuccess;
}

int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  if (program == nullptr || program->compiled) return kInvalidProgram;
  std::string standard = "c++17";
  for (int i = 0; i < count; ++i) {
    if (ReadOption(options[i], program, &standard)) continue;
    program->log = std::string("the emulated NVRTC does not know the option ") + options[i];
    return kInvalidOption;
  }
  const Result result = Compile(program, standard);
  program->compiled = result == kSuccess;
  return result;
}

int nvrtcGetPTXSize(Program* program, size_t* bytes) {
  return program != nullptr && program->compiled ? GetSize(program, program->ptx, bytes) : kInvalidProgram;
}
int nvrtcGetPTX(Program* program, char* ptx) {
  return program != nullptr && program->compiled ? GetText(program, program->ptx, ptx) : kInvalidProgram;
}
// The emulated driver takes PTX in the place of machine code. There is none for a virtual architecture.
int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  if (program == nullptr || !program->compiled || bytes == nullptr) return kInvalidProgram;
  if (program->has_cubin) return GetSize(program, program->ptx, bytes);
  *bytes = 0;
  return kSuccess;
}
int nvrtcGetCUBIN(Program* program, char* cubin) {
  if (program == nullptr || !program->compiled || !program->has_cubin) return kInvalidProgram;
  return GetText(program, program->ptx, cubin);
}
int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  return program == nullptr ? static_cast<int>(kInvalidProgram) : GetSize(program, program->log, bytes);
}
int nvrtcGetProgramLog(Program* program, char* log) {
  return program == nullptr ? static_cast<int>(kInvalidProgram) : GetText(program, program->log, log);
}

}  // extern "C"
