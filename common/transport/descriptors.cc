#include "common/transport/descriptors.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace phub::transport {

namespace {
constexpr std::size_t kMaxDescriptors = 4;

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
};

UnixAddress abstract_address(const std::string& name) {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof(result.address.sun_path) - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), bytes);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return result;
}
}  // namespace

Status send_with_descriptors(int socket, std::span<const std::byte> bytes,
                             std::span<const int> descriptors) {
  PHUB_CHECK(descriptors.size() <= kMaxDescriptors, "number of descriptors");
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control = {};
  iovec vector = {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: sendmsg reads
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) {
    return errno_status("sending to the peer", Code::kUnavailable);
  }
  return {};
}

long receive_with_descriptors(int socket, std::span<std::byte> bytes,
                              std::vector<UniqueFd>& descriptors, std::size_t descriptors_max) {
  PHUB_CHECK(descriptors_max <= kMaxDescriptors, "number of descriptors");
  const std::size_t room = descriptors_max - std::min(descriptors.size(), descriptors_max);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control = {};
  iovec vector = {bytes.data(), bytes.size()};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (room > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_LEN(room * sizeof(int));  // CMSG_SPACE may have room for one more
  }
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return -1;
  const std::size_t before = descriptors.size();
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {  // the system has closed those without room
    descriptors.erase(descriptors.begin() + static_cast<std::ptrdiff_t>(before), descriptors.end());
    errno = EPROTO;
    return -1;
  }
  return got;
}

void set_timeout(int socket, std::chrono::milliseconds timeout) {
  const timeval value = {.tv_sec = timeout.count() / 1000,
                         .tv_usec = (timeout.count() % 1000) * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}

Status set_nonblocking(int fd, std::string_view what) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return errno_status(what);
}

Result<UniqueFd> listen_abstract(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("unix socket", Code::kResourceExhausted);
  const UnixAddress address = abstract_address(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.length) !=
          0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return errno_status("listening on unix socket @" + name, Code::kAlreadyExists);
  }
  return socket;
}

Result<UniqueFd> connect_abstract(const std::string& name, std::chrono::milliseconds timeout) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("unix socket", Code::kResourceExhausted);
  set_timeout(socket.get(), timeout);  // a full queue of a listener makes connect wait
  const UnixAddress address = abstract_address(name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.address),
                address.length) != 0) {
    return errno_status(
        "connecting to unix socket @" + name + " (another container? then set transport to tcp)",
        Code::kUnavailable);
  }
  return socket;
}

}  // namespace phub::transport
