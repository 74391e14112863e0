// A socket that somebody else owns now: whether it is still open.
//
// Its number may be another file's by the time that we ask, so it is known by its inode. A
// duplicate kept for the socket's life would double the descriptors, and keep it open.
//
// A value; any thread.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>

namespace phub::server {

class HandedSocket {
 public:
  // REQUIRES: the socket is open and still the caller's.
  explicit HandedSocket(int fd) : fd_(fd), inode_(inode_of(fd)) {}

  bool is_open() const { return inode_of(fd_) == inode_; }

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
