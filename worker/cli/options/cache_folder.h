// Where this user's measurements are kept between runs.
#pragma once

#include <filesystem>
#include <string_view>

namespace phub {

// A file of this name in phub's folder of the user's cache ($XDG_CACHE_HOME, else ~/.cache), which
// is made; empty if there is no such folder.
std::filesystem::path cache_file(std::string_view name);

}  // namespace phub
