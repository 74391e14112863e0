// Whether a path can be read to its end: a FIFO that nobody writes to, or a terminal, would wait
// for ever.
//
// A pure look; any thread, set-up only.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/base/status.h"

namespace phub {

// What is below /dev is the caller's own descriptor, with a writer at its other end. A file that is
// not there is for whoever opens it to say. Error: kInvalidArgument.
inline Status check_readable_to_end(const std::string& path) {
  struct stat found {};
  if (path.starts_with("/dev/") || ::stat(path.c_str(), &found) != 0) return {};
  if (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) return {};
  return {Code::kInvalidArgument,
          path + " is no file but a FIFO, a socket or a device, which may never end; give a file"};
}

}  // namespace phub
