// Small files that are there whole or not at all, whenever the process or the machine stops.
//
// Functions; any control thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::server {

// Renames within a folder; the name is on the disk when this returns.
Status rename_durably(const std::string& from, const std::string& to);

// Writes `text` to PATH.tmp, for the owner only, syncs it and renames it. Errors:
// kResourceExhausted for want of room, kPermissionDenied; nothing is left behind.
Status write_whole_file(const std::string& path, std::string_view text);

}  // namespace phub::server
