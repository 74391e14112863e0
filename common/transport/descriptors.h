// Passing file descriptors over a unix socket, and addresses of such sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::transport {

// Sends `bytes` and the descriptors in one message. The socket may block.
Status send_with_descriptors(int socket, std::span<const std::byte> bytes,
                             std::span<const int> descriptors);

// Receives what is there, at most bytes.size() bytes; descriptors that came along are appended, up
// to `descriptors_max` in all. Returns the number of bytes, 0 at the end of the stream, -1 with
// errno set: EPROTO when more descriptors came, none of which is kept.
long receive_with_descriptors(int socket, std::span<std::byte> bytes,
                              std::vector<UniqueFd>& descriptors, std::size_t descriptors_max);

// The same with a value, in the bytes of the host.
template <typename T>
Status send_value(int socket, const T& value, std::span<const int> descriptors = {}) {
  return send_with_descriptors(socket, std::as_bytes(std::span(&value, 1)), descriptors);
}

// A listening, respectively a connected, stream socket in the abstract namespace.
Result<UniqueFd> listen_abstract(const std::string& name);
// Connecting waits for `timeout` at most, and so do sends and receives later.
Result<UniqueFd> connect_abstract(const std::string& name, std::chrono::milliseconds timeout);
// Bounds every send, receive and connect of a socket that blocks.
void set_timeout(int socket, std::chrono::milliseconds timeout);
// Error: `what`, and the system's word.
Status set_nonblocking(int fd, std::string_view what);

}  // namespace phub::transport
