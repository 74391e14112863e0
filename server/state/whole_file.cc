#include "server/state/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/unique_fd.h"

namespace phub::server {
namespace {

Status failed(const std::string& what) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return errno_status(what, is_full ? Code::kResourceExhausted : Code::kPermissionDenied);
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("cannot write " + path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(fd) != 0) return failed("cannot sync " + path);
  return {};
}

}  // namespace

Status rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return failed("cannot rename to " + to);
  const std::string folder = std::filesystem::path(to).parent_path().string();
  const UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle || ::fsync(handle.get()) != 0) return failed("cannot sync the folder of " + to);
  return {};
}

Status write_whole_file(const std::string& path, std::string_view text) {
  const std::string unfinished = path + ".tmp";
  ::unlink(unfinished.c_str());  // of a process that was killed
  Status written;
  {
    const UniqueFd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return failed("cannot make " + unfinished);
    written = write_all(file.get(), text, unfinished);
  }
  if (written.ok()) written = rename_durably(unfinished, path);
  if (!written.ok()) ::unlink(unfinished.c_str());
  return written;
}

}  // namespace phub::server
