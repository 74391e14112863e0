// Whether a path can be read to its end, or written: a FIFO with nobody at its other end, or a
// terminal, would wait for ever, and /dev/zero has no end.
//
// Any thread, set-up only.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace phub {

// A descriptor of the caller's own (/dev/stdin, and /dev/fd/N of a shell's <(command)) has a writer
// at its other end. A file that is not there is for whoever opens it to say. Error:
// kInvalidArgument.
inline Status check_readable_to_end(const std::string& path) {
  struct stat found {};
  const bool is_own = path == "/dev/stdin" || path == "/dev/null" || path.starts_with("/dev/fd/");
  if (::stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return {};
  if (S_ISDIR(found.st_mode)) {
    return {Code::kInvalidArgument, path + " is a directory; give a file"};
  }
  if (is_own) return {};
  return {Code::kInvalidArgument,
          path + " is no file but a FIFO, a socket or a device, which may never end; give a file"};
}

// Whoever reads the FIFO at `path`, which stays its reader while what is returned is held; nothing
// of a path that is no FIFO. To be held until `path` is open for writing. Error: kInvalidArgument
// when nobody reads it.
inline Result<UniqueFd> reader_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISFIFO(found.st_mode)) return UniqueFd();
  UniqueFd held(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (held || errno != ENXIO) return held;
  return Status(Code::kInvalidArgument,
                path + " is a FIFO that nobody reads; start its reader first, or give a file");
}

}  // namespace phub
