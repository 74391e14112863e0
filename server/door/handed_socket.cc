#include "server/door/handed_socket.h"

#include <linux/tcp.h>  // not in a header: it does not go with <netinet/tcp.h>
#include <netinet/in.h>

namespace phub::server {

std::uint64_t HandedSocket::received() const {
  const UniqueFd same(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  tcp_info info{};
  socklen_t length = sizeof(info);
  const bool is_told = same && inode_of(same.get()) == inode_ &&
                       ::getsockopt(same.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  return is_told ? info.tcpi_bytes_received : 0;
}

}  // namespace phub::server
