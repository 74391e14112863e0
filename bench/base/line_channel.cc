#include "bench/base/line_channel.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace phub::bench {
namespace {

constexpr int kBacklog = 64;
constexpr std::size_t kReadBytes = 64 * 1024;

// Of a path, or else of an abstract name, whose first byte stays zero.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  const std::size_t start = name.starts_with('/') ? 0 : 1;
  const std::size_t copied = name.copy(address.sun_path + start, sizeof(address.sun_path) - 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + copied);
}

}  // namespace

int poll_timeout(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

Status LineChannel::write_line(std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  std::size_t sent = 0;
  while (sent < text.size()) {
    const char* const rest = text.data() + sent;
    const std::size_t bytes = text.size() - sent;
    const ssize_t n =
        out_ ? ::write(out_.get(), rest, bytes) : ::send(fd_.get(), rest, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("control channel", Code::kUnavailable);
    sent += static_cast<std::size_t>(n);
  }
  return {};
}

Status LineChannel::read_some() {
  std::array<char, kReadBytes> bytes;
  ssize_t n = 0;
  do {
    n = ::read(fd_.get(), bytes.data(), bytes.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno_status("control channel", Code::kUnavailable);
  if (n == 0) return Status(Code::kUnavailable, "control channel closed");
  buffer_.append(bytes.data(), static_cast<std::size_t>(n));
  return {};
}

std::optional<std::string> LineChannel::take_line() {
  const std::size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

Result<std::string> LineChannel::read_line() {
  for (;;) {
    if (auto line = take_line()) return *std::move(line);
    PHUB_RETURN_IF_ERROR(read_some());
  }
}

Result<UniqueFd> listen_abstract(std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_status("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A bind to the family alone lets the kernel choose a free abstract name (unix(7), autobind).
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status("control socket");
  }
  socklen_t length = sizeof(address);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return errno_status("getsockname");
  }
  name.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  return fd;
}

Result<UniqueFd> listen_path(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Status(Code::kInvalidArgument, path + ": too long for a socket; set a shorter TMPDIR");
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_status("socket");
  sockaddr_un address{};
  const socklen_t length = address_of(path, address);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_status(path);
  }
  return fd;
}

Result<LineChannel> accept_channel(int listener) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return errno_status("accept");
  return LineChannel(std::move(fd));
}

Result<LineChannel> connect_channel(const std::string& name) {
  if (name == kStandardStreams) {
    ::signal(SIGPIPE, SIG_IGN);  // a pipe's end is told by an error
    return LineChannel(UniqueFd(::dup(STDIN_FILENO)), UniqueFd(::dup(STDOUT_FILENO)));
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_status("socket");
  sockaddr_un address{};
  const socklen_t length = address_of(name, address);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return errno_status("connect to the bench", Code::kUnavailable);
  }
  return LineChannel(std::move(fd));
}

}  // namespace phub::bench
