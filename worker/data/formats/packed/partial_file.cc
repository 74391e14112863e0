#include "worker/data/formats/packed/partial_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

// Whether the name still leads to the file: another writer may have renamed it before our lock.
bool is_still_at(int fd, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Result<PartialFile> PartialFile::open(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!fd) return errno_status("cannot make " + printable(path), Code::kNotFound);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return Status(Code::kInvalidArgument, printable(path) + " is no regular file; remove it");
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || !is_still_at(fd.get(), path)) {
    return Status(Code::kFailedPrecondition,
                  printable(path) + " is being written by another process; wait for its end");
  }
  return PartialFile(path, std::move(fd));
}

std::uint64_t PartialFile::bytes() const {
  struct stat found {};
  return ::fstat(fd_.get(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

bool PartialFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  return read_fully(fd_.get(), offset, {reinterpret_cast<std::uint8_t*>(into.data()), into.size()});
}

Status PartialFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("cannot write " + std::to_string(bytes.size()) + " bytes of ");
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status PartialFile::cut(std::uint64_t bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) return failed("cannot cut ");
  return {};
}

Status PartialFile::sync() {
  if (::fdatasync(fd_.get()) != 0) return failed("cannot sync ");
  return {};
}

Status PartialFile::rename_to(const std::filesystem::path& path) {
  if (::fsync(fd_.get()) != 0) return failed("cannot sync ");
  if (std::rename(path_.c_str(), path.c_str()) != 0) {
    return failed("cannot rename to " + printable(path) + " the file ");
  }
  const std::filesystem::path folder = path.parent_path();
  const UniqueFd handle(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle || ::fsync(handle.get()) != 0) return failed("cannot sync the folder of ");
  return {};
}

Status PartialFile::failed(std::string_view what) const {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  Status status = errno_status(std::string(what) + printable(path_),
                               is_full ? Code::kResourceExhausted : Code::kInternal);
  if (!is_full) return status;
  return {status.code(), status.message() +
                             "; make room and run it again: it goes on where it stopped, and the "
                             "file that it would replace is as it was"};
}

}  // namespace phub::data
