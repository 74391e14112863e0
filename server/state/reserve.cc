#include "server/state/reserve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/unique_fd.h"

namespace phub::server {

Status Reserve::fill() {
  if (path_.empty() || is_filled_) return {};
  struct stat found {};
  is_filled_ = ::stat(path_.c_str(), &found) == 0 &&
               static_cast<std::uint64_t>(found.st_blocks) * 512 >= kBytes;
  if (is_filled_) return {};
  std::error_code error;
  const auto room = std::filesystem::space(std::filesystem::path(path_).parent_path(), error);
  if (!error && room.available >= 2 * kBytes) {
    const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
    is_filled_ = file && ::posix_fallocate(file.get(), 0, static_cast<off_t>(kBytes)) == 0;
  }
  if (is_filled_) return {};
  ::unlink(path_.c_str());
  return {Code::kResourceExhausted,
          fmt::format("{} of {} bytes cannot be made; make room in state_folder, or a full disk "
                      "may keep the next start from its state",
                      path_, std::uint64_t{kBytes})};
}

bool Reserve::give_back() {
  is_filled_ = false;
  return !path_.empty() && ::unlink(path_.c_str()) == 0;
}

}  // namespace phub::server
