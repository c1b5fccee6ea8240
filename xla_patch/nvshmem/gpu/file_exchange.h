// Passes file descriptors between the processes of a host, over Unix sockets.
//
// Each process listens at an address of its own, tells the others, and then exchanges with all at once. Addresses are
// abstract: nothing is left behind in a file system. They hold a random number, and a process of another user is not
// served. They reach only processes of one network namespace.
#ifndef XLA_SHMEM_NVSHMEM_GPU_FILE_EXCHANGE_H_
#define XLA_SHMEM_NVSHMEM_GPU_FILE_EXCHANGE_H_

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// A file descriptor that is closed with its owner.
class OwnedFile {
 public:
  OwnedFile() = default;
  explicit OwnedFile(int file) : file_(file) {}
  ~OwnedFile() { Close(); }
  OwnedFile(OwnedFile&& other) noexcept : file_(other.Release()) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept;
  int get() const { return file_; }
  int Release();
  void Close();

 private:
  int file_ = -1;
};

class FileExchange {
 public:
  // Starts to listen.
  static Result<std::unique_ptr<FileExchange>> Listen();

  // What other processes need to know; text without spaces.
  const std::string& address() const { return address_; }

  // Another process, and how many files it gives.
  struct Peer {
    int process = 0;
    std::string address;
    int files = 0;
  };
  // Gives `own` to each of the others and returns what each gives, by process. All must call this. An error if one has
  // not answered within `patience`, names it.
  Result<std::map<int, std::vector<OwnedFile>>> Exchange(int process, const std::vector<int>& own,
                                                         const std::vector<Peer>& others,
                                                         std::chrono::milliseconds patience);

 private:
  FileExchange(OwnedFile socket, std::string address) : socket_(std::move(socket)), address_(std::move(address)) {}

  OwnedFile socket_;
  std::string address_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_FILE_EXCHANGE_H_
