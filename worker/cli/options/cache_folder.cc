#include "worker/cli/options/cache_folder.h"

#include <cstdlib>
#include <system_error>

namespace phub {

std::filesystem::path cache_file(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return {};
  }
  folder /= "phub";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return failed ? std::filesystem::path() : folder / name;
}

}  // namespace phub
