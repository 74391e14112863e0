#include "worker/data/gzip_file.h"

#include <algorithm>
#include <cerrno>

#include "common/base/whole_file.h"

namespace phub::data {

Result<std::unique_ptr<GzipFile>> GzipFile::open(const std::filesystem::path& path) {
  const Status readable = check_readable_to_end(path.string());
  if (!readable.ok()) return readable.with_context("data.path");
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return errno_status("cannot open " + path.string() + " (see data.path)", Code::kNotFound);
  }
  return std::unique_ptr<GzipFile>(new GzipFile(path.string(), file));
}

GzipFile::~GzipFile() { gzclose(file_); }

Status GzipFile::read(std::span<std::uint8_t> bytes) {
  constexpr std::size_t kMaxRead = 1U << 30U;  // gzread counts in int
  while (!bytes.empty()) {
    const auto wanted = static_cast<unsigned>(std::min(bytes.size(), kMaxRead));
    const int count = gzread(file_, bytes.data(), wanted);
    if (count < 0) {
      int code = Z_OK;
      return damaged(gzerror(file_, &code));
    }
    if (count == 0) {
      return damaged("it ends " + std::to_string(bytes.size()) + " bytes too early");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status GzipFile::expect_end() {
  std::uint8_t byte = 0;
  const int count = gzread(file_, &byte, 1);
  if (count > 0) return damaged("it is longer than its header says");
  int code = Z_OK;
  const char* message = gzerror(file_, &code);
  if (count < 0 || code != Z_OK) return damaged(message);
  return {};
}

std::uint64_t GzipFile::bytes_max() const {
  constexpr std::uint64_t kDeflateMost = 1032;  // bytes out of one
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  return error ? UINT64_MAX : kDeflateMost * bytes;
}

Status GzipFile::damaged(const std::string& what) const {
  return {Code::kDataLoss, path_ + " is damaged: " + what + "; fetch the file again"};
}

}  // namespace phub::data
