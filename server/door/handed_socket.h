// A socket that somebody else owns now: whether it is still open, and how to end it.
//
// Its number may be another file's by the time that we ask, so it is known by its inode, and what
// is done to it is done through a duplicate that was checked. A duplicate kept for the socket's
// life would double the descriptors, and keep it in its owner's epoll set after a close.
//
// A value; any thread.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdint>

#include "common/base/unique_fd.h"

namespace phub::server {

class HandedSocket {
 public:
  // REQUIRES: the socket is open and still the caller's.
  explicit HandedSocket(int fd) : fd_(fd), inode_(inode_of(fd)) {}

  bool is_open() const { return inode_of(fd_) == inode_; }

  // What the other end has sent, in bytes; 0 of what is no TCP connection any more.
  std::uint64_t received() const;

  // Its owner then reads the end of the stream.
  void end() const {
    const UniqueFd same(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
    if (same && inode_of(same.get()) == inode_) ::shutdown(same.get(), SHUT_RDWR);
  }

 private:
  // Not by fstat: the thread sanitizer takes that for a use of whatever file has the number now, in
  // a race with those who open and close it.
  static std::uint64_t inode_of(int fd) {
    struct statx found {};
    const bool is_socket = ::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &found) == 0 &&
                           S_ISSOCK(found.stx_mode);
    return is_socket ? found.stx_ino : 0;
  }

  int fd_;
  std::uint64_t inode_;
};

}  // namespace phub::server
