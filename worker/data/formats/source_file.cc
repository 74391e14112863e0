#include "worker/data/formats/source_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/log_value.h"
#include "common/text/url.h"
#include "common/text/url_list.h"

namespace phub::data {
namespace {

constexpr std::size_t kWindowBytes = 4096;
constexpr std::size_t kFarWindowBytes = 1U << 20U;
// A far file is read on over this much that nobody wants, for another request takes longer.
constexpr std::uint64_t kNearBytes = 64U << 10U;

FileIdentity identity_of(const struct stat& found) {
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .bytes = static_cast<std::uint64_t>(found.st_size),
          .written_s = found.st_mtim.tv_sec,
          .written_ns = found.st_mtim.tv_nsec};
}

}  // namespace

std::string printable(const std::filesystem::path& path) {
  const std::string& text = path.native();
  return one_line(is_url(text) ? url_list_without_secrets(text) : text);
}

bool read_fully(int fd, std::uint64_t offset, std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = 0;
    if (count <= 0) return false;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

Result<SourceFile> SourceFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO would wait for its writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno_status("cannot open " + printable(path), Code::kNotFound);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return errno_status("fstat of " + printable(path));
  if (!S_ISREG(found.st_mode)) {
    return Status(Code::kInvalidArgument, printable(path) + " is no regular file; give a file");
  }
  return SourceFile(path, std::move(fd), identity_of(found));
}

Result<SourceFile> SourceFile::reopen(const std::filesystem::path& path,
                                      const FileIdentity& expected) {
  PHUB_ASSIGN_OR_RETURN(SourceFile file, open(path));
  if (file.identity_ == expected) return file;
  return Status(Code::kDataLoss, printable(path) + " has changed since the set was opened (" +
                                     std::to_string(expected.bytes) + " bytes then, " +
                                     std::to_string(file.bytes()) +
                                     " now); start again, and leave the files alone in between");
}

Status SourceFile::read(std::uint64_t offset, std::span<std::uint8_t> into) const {
  if (read_fully(fd_.get(), offset, into)) return {};
  if (errno != 0) {
    return errno_status("cannot read " + printable(path_) + " at offset " + std::to_string(offset),
                        Code::kDataLoss);
  }
  return ends_within(offset, into.size());
}

FileWindow::FileWindow(const ByteSource& file) : file_(&file), piece_bytes_(kWindowBytes) {}

void FileWindow::choose_piece(std::uint64_t offset) {
  const std::uint64_t end = begin_ + held_.size();
  const bool is_near = offset >= end && offset - end <= kNearBytes;
  piece_bytes_ = is_near ? std::min(2 * piece_bytes_, kFarWindowBytes) : kWindowBytes;
}

Result<std::span<const std::uint8_t>> FileWindow::at(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t end = begin_ + held_.size();
  if (offset < begin_ || offset > end || end - offset < bytes) {
    const std::uint64_t left = file_->bytes() - std::min(file_->bytes(), offset);
    if (left < bytes) return file_->ends_within(offset, bytes);
    if (file_->is_far()) choose_piece(offset);
    held_.resize(std::min<std::uint64_t>(left, std::max(bytes, piece_bytes_)));
    begin_ = offset;
    const Status status = file_->read(offset, held_);
    if (!status.ok()) {
      held_.clear();
      return status;
    }
  }
  return std::span<const std::uint8_t>(held_).subspan(offset - begin_, bytes);
}

Result<std::span<const std::uint8_t>> FileWindow::some(std::uint64_t offset) {
  PHUB_RETURN_IF_ERROR(at(offset, 1).error());
  return std::span<const std::uint8_t>(held_).subspan(offset - begin_);
}

}  // namespace phub::data
