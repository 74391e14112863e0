#include "common/tensors/safetensors.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <string_view>

#include "common/tensors/header.h"

namespace phub {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::string_view kUnfinished = ".tmp.";

static_assert(std::numeric_limits<float>::is_iec559, "F32 is the machine's float");

Status damaged(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss, path.string() + " is no valid safetensors file: " + what};
}

Status write_error(const std::string& what) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return errno_status(what, is_full ? Code::kResourceExhausted : Code::kInternal);
}

Status write_all(int fd, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return write_error("write");
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return {};
}

Status read_all(int fd, void* data, std::size_t bytes, std::uint64_t offset) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_status("cannot be read", Code::kDataLoss);
    if (count == 0) return {Code::kDataLoss, "it ends before its data"};
    to += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
  return {};
}

// Ends in ".tmp.PID.N".
bool has_unfinished_suffix(const std::string& name) {
  const std::size_t begin = name.rfind(kUnfinished);
  if (begin == std::string::npos) return false;
  const std::string_view numbers = std::string_view(name).substr(begin + kUnfinished.size());
  return !numbers.empty() && numbers.find_first_not_of("0123456789.") == std::string_view::npos;
}

// A new file that only this process writes. A process that removes abandoned files may have taken
// it before it was locked: then another one is made.
UniqueFd create_locked(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  while (true) {
    UniqueFd file(::open(path.c_str(), kFlags, 0644));
    if (!file) return file;
    struct stat status {};
    // On a disk without locks nobody gets one, and nothing is removed.
    const bool is_locked = ::flock(file.get(), LOCK_EX) == 0;
    if (!is_locked || ::fstat(file.get(), &status) != 0 || status.st_nlink > 0) return file;
  }
}

Status check_header_bytes(std::uint64_t bytes) {
  if (bytes <= kSafetensorsHeaderBytesMax) return {};
  return {Code::kFailedPrecondition,
          "its header would have " + std::to_string(bytes) + " bytes, and at most " +
              std::to_string(kSafetensorsHeaderBytesMax) +
              " can be read back; fuse small tensors or give keys shorter names"};
}

Status write_contents(int fd, const std::string& header, std::span<const TensorView> tensors) {
  std::array<unsigned char, kLengthBytes> length{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  }
  PHUB_RETURN_IF_ERROR(write_all(fd, length.data(), length.size()));
  PHUB_RETURN_IF_ERROR(write_all(fd, header.data(), header.size()));
  for (const TensorView& tensor : tensors) {
    PHUB_RETURN_IF_ERROR(write_all(fd, tensor.values, tensor.elements * sizeof(float)));
  }
  if (::fsync(fd) != 0) return write_error("fsync");
  return {};
}

Status rename_durably(const std::string& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return write_error("cannot rename " + from + " to " + to.string());
  }
  const std::string folder = to.has_parent_path() ? to.parent_path().string() : ".";
  const UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle) ::fsync(handle.get());  // where it may not be opened the name is written later
  return {};
}

struct OpenFile {
  UniqueFd file;
  std::string header = {};
  std::uint64_t data_bytes = 0;
};

// A pipe or a device is refused, not waited for.
Result<OpenFile> open_file(const std::filesystem::path& path) {
  OpenFile open{.file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  struct stat found {};
  if (!open.file || ::fstat(open.file.get(), &found) != 0) {
    return errno_status("cannot open " + path.string(), Code::kNotFound);
  }
  if (!S_ISREG(found.st_mode)) return damaged(path, "it is no regular file");
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (size < kLengthBytes) return damaged(path, "it is shorter than 8 bytes");
  std::array<unsigned char, kLengthBytes> bytes{};
  Status read = read_all(open.file.get(), bytes.data(), bytes.size(), 0);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = (length << 8U) | bytes[i];
  if (read.ok() && (length > size - kLengthBytes || length > kSafetensorsHeaderBytesMax)) {
    return damaged(path, "its header claims " + std::to_string(length) + " bytes");
  }
  open.data_bytes = size - kLengthBytes - length;
  if (read.ok()) {
    open.header.resize(length);
    read = read_all(open.file.get(), open.header.data(), length, kLengthBytes);
  }
  if (!read.ok()) return damaged(path, read.message());
  return open;
}

}  // namespace

const NamedTensor* TensorFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Result<std::uint64_t> safetensors_bytes(std::span<const TensorView> tensors,
                                        const TensorMetadata& metadata) {
  const std::uint64_t header = safetensors_header(tensors, metadata).size();
  PHUB_RETURN_IF_ERROR(check_header_bytes(header));
  std::uint64_t bytes = kLengthBytes + header;
  for (const TensorView& tensor : tensors) bytes += tensor.elements * sizeof(float);
  return bytes;
}

bool is_unfinished_safetensors(const std::string& name) {
  return name.find(kUnfinished) != std::string::npos;
}

void remove_abandoned_safetensors(const std::filesystem::path& folder, const std::string& prefix) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !has_unfinished_suffix(name)) continue;
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const UniqueFd file(::open(entry->path().c_str(), kFlags));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const TensorMetadata& metadata) {
  static std::atomic<std::uint64_t> count{0};  // two threads may write one name: the last one stays
  const std::string header = safetensors_header(tensors, metadata);
  PHUB_RETURN_IF_ERROR(check_header_bytes(header.size()).with_context(path.string()));
  const std::string temporary =
      path.string() + std::string(kUnfinished) + std::to_string(::getpid()) + "." +
      std::to_string(count.fetch_add(1, std::memory_order_relaxed));  // only has to be unique
  UniqueFd file = create_locked(temporary);
  if (!file) return write_error("cannot create " + temporary + " (does the directory exist?)");
  const UniqueFd lock(::dup(file.get()));  // the lock goes with the last of the two
  Status status = write_contents(file.get(), header, tensors).with_context(path.string());
  if (::close(file.release()) != 0 && status.ok())
    status = write_error("cannot close " + temporary);
  if (status.ok()) status = rename_durably(temporary, path);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Status write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  std::vector<TensorView> views;
  views.reserve(file.tensors.size());
  for (const NamedTensor& tensor : file.tensors) {
    views.push_back({.name = tensor.name,
                     .shape = tensor.shape,
                     .values = tensor.values.data(),
                     .elements = tensor.values.size()});
  }
  return write_safetensors(path, views, file.metadata);
}

Result<std::unique_ptr<SafetensorsReader>> SafetensorsReader::open(
    const std::filesystem::path& path) {
  PHUB_ASSIGN_OR_RETURN(OpenFile open, open_file(path));
  auto header = parse_safetensors_header(open.header, open.data_bytes);
  if (!header) return damaged(path, header.error().message());
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader(path, std::move(open.file)));
  reader->data_begin_ = kLengthBytes + open.header.size();
  reader->tensors_ = std::move(header->tensors);
  reader->metadata_ = std::move(header->metadata);
  return reader;
}

Status SafetensorsReader::read(const TensorEntry& tensor, std::uint64_t from,
                               std::span<float> to) const {
  const std::uint64_t at = data_begin_ + tensor.begin + from * sizeof(float);
  const Status status = read_all(file_.get(), to.data(), to.size_bytes(), at);
  return status.ok() ? Status() : damaged(path_, "tensor " + tensor.name + ": " + status.message());
}

Result<TensorFile> read_safetensors(const std::filesystem::path& path) {
  PHUB_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::open(path));
  TensorFile file{.tensors = {}, .metadata = reader->metadata()};
  for (const TensorEntry& entry : reader->tensors()) {
    if (entry.is_counter) {
      file.counters.push_back(entry.name);
      continue;
    }
    NamedTensor& tensor = file.tensors.emplace_back();
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.values.resize(entry.elements());
    PHUB_RETURN_IF_ERROR(reader->read(entry, 0, tensor.values));
  }
  return file;
}

Result<TensorMetadata> read_safetensors_metadata(const std::filesystem::path& path) {
  PHUB_ASSIGN_OR_RETURN(const OpenFile open, open_file(path));
  auto metadata = parse_safetensors_metadata(open.header);
  if (!metadata) return damaged(path, metadata.error().message());
  return metadata;
}

}  // namespace phub
