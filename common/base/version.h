// The version of the software; CMakeLists.txt reads it from here.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace phub {

inline constexpr char kVersion[] = "0.1.0";

// The commit that this was built from, "-dirty" behind it where files were changed; "unknown"
// without git.
std::string_view commit();

// "phub-server 0.1.0 (commit 1a2b3c4d5e6f)", as --version prints it.
std::string version_of(std::string_view program);

}  // namespace phub
