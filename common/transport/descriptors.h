// Passing file descriptors over a unix socket, and addresses of such sockets.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub::transport {

// Sends `bytes` and the descriptors in one message. The socket may block.
Status send_with_descriptors(int socket, std::span<const std::byte> bytes,
                             std::span<const int> descriptors);

// Receives what is there, at most bytes.size() bytes; descriptors that came along are appended.
// Returns the number of bytes, 0 at the end of the stream, -1 with errno set.
long receive_with_descriptors(int socket, std::span<std::byte> bytes,
                              std::vector<UniqueFd>& descriptors);

// A listening, respectively a connected, stream socket in the abstract namespace.
Result<UniqueFd> listen_abstract(const std::string& name);
Result<UniqueFd> connect_abstract(const std::string& name);

}  // namespace phub::transport
