// Warns of a file or folder that should be its owner's alone, where others may use it.
//
// Any thread; reads and logs, and changes nothing: the server's user may want it so.
#pragma once

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <string>
#include <string_view>

#include "common/base/log_value.h"

namespace phub::server {

// A line `event=EVENT` with the mode and the cure. Nothing of what is not there, and of "".
inline void warn_of_others(std::string_view event, const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return;
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) == 0) return;
  spdlog::warn(
      "event={} file={} mode={:o} cure=\"chmod {}: others than its owner may read or change it\"",
      event, log_value(path), found.st_mode & 0777U, S_ISDIR(found.st_mode) ? 700 : 600);
}

}  // namespace phub::server
