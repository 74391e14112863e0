// Whether a path can be read to its end: a FIFO that nobody writes to, or a terminal, would wait
// for ever, and /dev/zero has none.
//
// A pure look; any thread, set-up only.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/base/status.h"

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

}  // namespace phub
