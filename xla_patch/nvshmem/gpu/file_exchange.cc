#include "xla_patch/nvshmem/gpu/file_exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>

namespace xla_shmem::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// SCM_MAX_FD of Linux is 253; no process has so many GPUs.
constexpr int kMostFiles = 64;

Status Failed(const std::string& what) { return Status::Error(what + ": " + strerror(errno)); }

OwnedFile NewSocket() { return OwnedFile(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

std::pair<sockaddr_un, socklen_t> ToSocketAddress(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address.sun_path) - 1);
  memcpy(address.sun_path + 1, name.data(), bytes);  // behind a zero: abstract
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes)};
}

// False after the time.
bool WaitToRead(int file, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{file, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool IsOfThisUser(int connection) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

// A message with its files. `number`: the process that sends.
struct Message {
  explicit Message(int process) : number(process) {
    data = {&number, sizeof(number)};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  int32_t number;
  iovec data{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFiles)] = {};
  msghdr header{};
};

bool Send(int connection, int process, const std::vector<int>& files) {
  Message message(process);
  message.header.msg_controllen = files.empty() ? 0 : CMSG_SPACE(sizeof(int) * files.size());
  if (!files.empty()) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    memcpy(CMSG_DATA(header), files.data(), sizeof(int) * files.size());
  }
  return sendmsg(connection, &message.header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(int32_t));
}

// The files of process `process`; empty if the message is not its.
std::vector<OwnedFile> Receive(int connection, int process) {
  Message message(-1);
  std::vector<OwnedFile> files;
  const ssize_t bytes = recvmsg(connection, &message.header, MSG_CMSG_CLOEXEC);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message.header); bytes > 0 && header != nullptr;
       header = CMSG_NXTHDR(&message.header, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      memcpy(&file, CMSG_DATA(header) + i * sizeof(int), sizeof(file));
      files.emplace_back(file);
    }
  }
  if (bytes != sizeof(int32_t) || message.number != process) files.clear();
  return files;
}

Status NotReached(int process, const std::string& why) {
  return Status::Error("process " + std::to_string(process) + " of this host cannot be reached by a Unix socket (" +
                       why + "): the containers of a host need one network namespace, or one process with all GPUs");
}

}  // namespace

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  if (this != &other) {
    Close();
    file_ = other.Release();
  }
  return *this;
}

int OwnedFile::Release() { return std::exchange(file_, -1); }

void OwnedFile::Close() {
  if (file_ >= 0) close(Release());
}

Result<std::unique_ptr<FileExchange>> FileExchange::Listen() {
  OwnedFile listener = NewSocket();
  if (listener.get() < 0) return Failed("no Unix socket");
  std::random_device random;
  std::string name = "xla-shmem-" + std::to_string(getpid());
  for (int i = 0; i < 4; ++i) name += "-" + std::to_string(random());
  const auto [address, bytes] = ToSocketAddress(name);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return Failed("no Unix socket could listen");
  }
  return std::unique_ptr<FileExchange>(new FileExchange(std::move(listener), name));
}

// Connections wait in the backlog and messages in the sockets, so nobody waits for another process before it has sent
// its own files.
Result<std::map<int, std::vector<OwnedFile>>> FileExchange::Exchange(int process, const std::vector<int>& own,
                                                                     const std::vector<Peer>& others,
                                                                     std::chrono::milliseconds patience) {
  const auto give_up = Clock::now() + patience;
  if (own.size() > kMostFiles) return Status::Error(std::to_string(own.size()) + " GPUs in one process are too many");
  std::map<int, OwnedFile> connections;
  for (const Peer& peer : others) {
    OwnedFile connection = NewSocket();
    const auto [address, bytes] = ToSocketAddress(peer.address);
    if (connection.get() < 0 || connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
      return NotReached(peer.process, strerror(errno));
    }
    connections[peer.process] = std::move(connection);
  }
  // Messages stay readable after the sender has closed.
  for (size_t served = 0; served < others.size();) {
    if (!WaitToRead(socket_.get(), give_up)) {
      return Status::Error("only " + std::to_string(served) + " of " + std::to_string(others.size()) +
                           " processes of this host have asked for memory of process " + std::to_string(process));
    }
    const OwnedFile connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0 || !IsOfThisUser(connection.get())) continue;
    if (!Send(connection.get(), process, own)) return Failed("files could not be sent");
    ++served;
  }
  std::map<int, std::vector<OwnedFile>> received;
  for (const Peer& peer : others) {
    const int connection = connections[peer.process].get();
    if (!WaitToRead(connection, give_up)) return NotReached(peer.process, "it has not answered");
    std::vector<OwnedFile> files = Receive(connection, peer.process);
    if (files.size() != static_cast<size_t>(peer.files)) {
      return NotReached(peer.process, "it sent " + std::to_string(files.size()) + " of " + std::to_string(peer.files) +
                                          " file descriptors");
    }
    received[peer.process] = std::move(files);
  }
  return received;
}

}  // namespace xla_shmem::gpu
