#include "common/base/version.h"

namespace phub {

std::string_view commit() { return PHUB_COMMIT; }

std::string version_of(std::string_view program) {
  return std::string(program) + " " + kVersion + " (commit " + std::string(commit()) + ")";
}

}  // namespace phub
