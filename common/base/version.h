// The version of the software; CMakeLists.txt reads it from here.
#pragma once

namespace phub {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace phub
