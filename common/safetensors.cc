#include "common/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

namespace phub {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderAlignment = 8;
constexpr std::uint64_t kMaxHeaderBytes = 16ULL << 20U;

static_assert(std::numeric_limits<float>::is_iec559, "F32 is the machine's float");

Status damaged(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss, path.string() + " is no valid safetensors file: " + what};
}

std::string header_of(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : file.tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

Status write_all(int fd, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("write");
    from += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return {};
}

Status write_contents(int fd, const TensorFile& file) {
  const std::string header = header_of(file);
  unsigned char length[kLengthBytes];
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  }
  PHUB_RETURN_IF_ERROR(write_all(fd, length, sizeof(length)));
  PHUB_RETURN_IF_ERROR(write_all(fd, header.data(), header.size()));
  for (const NamedTensor& tensor : file.tensors) {
    PHUB_RETURN_IF_ERROR(write_all(fd, tensor.values.data(), tensor.values.size() * sizeof(float)));
  }
  if (::fsync(fd) != 0) return errno_status("fsync");
  return {};
}

// Where a tensor's data lies, checked against the data's length.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Result<Extent> parse_extent(const Json& entry, std::uint64_t data_bytes) {
  const auto bad = [](const char* what) { return Status(Code::kDataLoss, what); };
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return bad("data_offsets are not two numbers");
  }
  const Extent extent{(*offsets)[0].get<std::uint64_t>(), (*offsets)[1].get<std::uint64_t>()};
  if (extent.begin > extent.end || extent.end > data_bytes) {
    return bad("data_offsets lie outside of the file");
  }
  return extent;
}

constexpr const char* kFloat = "F32";
constexpr const char* kCounter = "I64";

Result<std::uint64_t> element_bytes_of(const Json& entry) {
  const auto dtype = entry.find("dtype");
  if (dtype != entry.end() && *dtype == kFloat) return sizeof(float);
  if (dtype != entry.end() && *dtype == kCounter) return sizeof(std::int64_t);
  return Status(Code::kDataLoss, "dtype is not F32; convert it (PyTorch: model.float())");
}

Status parse_tensor(const Json& entry, const Extent& extent, NamedTensor& tensor) {
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t element_bytes, element_bytes_of(entry));
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) return {Code::kDataLoss, "shape is no list"};
  const std::uint64_t elements = (extent.end - extent.begin) / element_bytes;
  std::uint64_t product = 1;
  for (const Json& dimension : *shape) {
    if (!dimension.is_number_unsigned()) return {Code::kDataLoss, "shape is no list of numbers"};
    const auto size = dimension.get<std::uint64_t>();
    if (size != 0 && product > elements / size) {
      return {Code::kDataLoss, "shape is larger than the data"};
    }
    product *= size;
    tensor.shape.push_back(size);
  }
  if (product * element_bytes != extent.end - extent.begin) {
    return {Code::kDataLoss, "shape and data differ in size"};
  }
  return {};
}

Status parse_metadata(const Json& entry, TensorFile& file) {
  if (!entry.is_object()) return {Code::kDataLoss, "metadata is no object"};
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return {Code::kDataLoss, "metadata is no text"};
    file.metadata[key] = value.get<std::string>();
  }
  return {};
}

struct Found {
  Extent extent;
  NamedTensor tensor;
  bool is_counter = false;
};

Result<TensorFile> parse(const Json& header, std::span<const char> data) {
  TensorFile file;
  std::vector<Found> found;
  for (const auto& [name, entry] : header.items()) {
    if (!entry.is_object()) return Status(Code::kDataLoss, "entry \"" + name + "\" is no object");
    if (name == "__metadata__") {
      PHUB_RETURN_IF_ERROR(parse_metadata(entry, file));
      continue;
    }
    NamedTensor tensor{.name = name, .shape = {}, .values = {}};
    auto extent = parse_extent(entry, data.size());
    if (!extent) return extent.error().with_context("tensor " + name);
    PHUB_RETURN_IF_ERROR(parse_tensor(entry, *extent, tensor).with_context("tensor " + name));
    found.push_back({*extent, std::move(tensor), entry["dtype"] == kCounter});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.extent.begin, a.extent.end) < std::pair(b.extent.begin, b.extent.end);
  });
  // The format has no gaps and no overlaps; so what is allocated is as large as the file.
  std::uint64_t end = 0;
  for (auto& [extent, tensor, is_counter] : found) {
    if (extent.begin != end) {
      return Status(Code::kDataLoss, "tensor " + tensor.name + " does not follow the one before");
    }
    end = extent.end;
    if (is_counter) {
      file.counters.push_back(std::move(tensor.name));
      continue;
    }
    tensor.values.resize((extent.end - extent.begin) / sizeof(float));
    if (!tensor.values.empty()) {
      std::memcpy(tensor.values.data(), data.data() + extent.begin, extent.end - extent.begin);
    }
    file.tensors.push_back(std::move(tensor));
  }
  if (end != data.size()) return Status(Code::kDataLoss, "there is data that no tensor owns");
  return file;
}

// Leaves the stream where the data begins.
Result<Json> read_header(std::ifstream& stream, const std::filesystem::path& path) {
  if (!stream) return errno_status("cannot open " + path.string(), Code::kNotFound);
  std::array<char, kLengthBytes> bytes = {};
  if (!stream.read(bytes.data(), bytes.size())) return damaged(path, "it is shorter than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = (length << 8U) | static_cast<unsigned char>(bytes[i]);
  }
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error || length > size - kLengthBytes || length > kMaxHeaderBytes) {
    return damaged(path, "its header claims " + std::to_string(length) + " bytes");
  }
  std::string text(length, ' ');
  if (!stream.read(text.data(), static_cast<std::streamsize>(length))) {
    return damaged(path, "it ends within its header");
  }
  Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) return damaged(path, "its header is no JSON object");
  return header;
}

}  // namespace

const NamedTensor* TensorFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Status write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  const std::string temporary = path.string() + ".tmp." + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return errno_status("cannot create " + temporary + " (does the directory exist?)");
  Status status = write_contents(fd, file).with_context(path.string());
  if (::close(fd) != 0 && status.ok()) status = errno_status("cannot close " + temporary);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = errno_status("cannot rename " + temporary + " to " + path.string());
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

Result<TensorFile> read_safetensors(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  PHUB_ASSIGN_OR_RETURN(const Json header, read_header(stream, path));
  const std::string data(std::istreambuf_iterator<char>(stream), {});
  auto file = parse(header, data);
  if (!file) return damaged(path, file.error().message());
  return file;
}

Result<std::map<std::string, std::string>> read_safetensors_metadata(
    const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  PHUB_ASSIGN_OR_RETURN(const Json header, read_header(stream, path));
  const auto metadata = header.find("__metadata__");
  TensorFile file;
  if (metadata == header.end()) return file.metadata;
  const Status parsed = parse_metadata(*metadata, file);
  if (!parsed.ok()) return damaged(path, parsed.message());
  return file.metadata;
}

}  // namespace phub
