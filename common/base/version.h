// The version of the software, as in the project's CMakeLists.txt.
#pragma once

namespace phub {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace phub
