// Any bytes as a tar shard, a TFRecord shard or a packed file: samples whose labels are below the
// classes, or an error. Any bytes as a kept index: samples of the file, or nothing. The first byte
// says which; of each format there is one where checksums are made right, so that what is behind
// them is reached too.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "common/protocol/crc32c.h"
#include "worker/data/formats/detect/detect.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/packed/pack_format.h"
#include "worker/data/formats/packed/packed_set.h"
#include "worker/data/formats/shards/kept_index.h"

namespace {

namespace fs = std::filesystem;
using namespace phub::data;  // NOLINT(google-build-using-namespace)

struct Folder {
  // In memory where there is such a folder: every input writes a file.
  fs::path path = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
                  ("phub-fuzz-" + std::to_string(::getpid()));
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }

  fs::path write(const char* name, std::string_view content) const {
    std::ofstream(path / name, std::ios::binary)
        .write(content.data(), static_cast<long>(content.size()));
    return path;
  }
};

std::uint32_t crc_of(std::string_view bytes) {
  return phub::crc32c(std::as_bytes(std::span<const char>(bytes)));
}

// Each block with ustar's magic has its checksum, and the end is whole.
std::string right_tar(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  for (std::size_t block = 0; block < bytes.size(); block += 512) {
    if (bytes.compare(block + 257, 5, "ustar") != 0) continue;
    std::memset(bytes.data() + block + 148, ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[block + i]);
    for (unsigned i = 0; i < 7; ++i) {
      bytes[block + 148 + i] = static_cast<char>('0' + ((sum >> (18 - 3 * i)) & 7U));
    }
  }
  return bytes + std::string(1024, '\0');
}

std::string number(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string masked(std::string_view bytes) {
  const std::uint32_t crc = crc_of(bytes);
  return number(((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U, 4);
}

std::string right_record(std::string_view content) {
  const std::string length = number(content.size(), 8);
  return length + masked(length) + std::string(content) + masked(content);
}

// Where the header leads to has its checksum, and so has the header.
std::string right_pack(std::string bytes) {
  PackHeader header;
  if (bytes.size() < sizeof(header)) return bytes;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::memcpy(header.magic, kPackMagic.data(), kPackMagic.size());
  header.version = kPackVersion;
  header.file_bytes = bytes.size();
  const std::string_view all = bytes;
  if (header.index_offset <= header.names_offset && header.names_offset <= bytes.size()) {
    header.index_crc =
        crc_of(all.substr(header.index_offset, header.names_offset - header.index_offset));
    header.names_crc = crc_of(all.substr(header.names_offset));
  }
  header.header_crc = phub::data::crc_of(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

void expect_right(const phub::Result<std::unique_ptr<SampleSet>>& set) {
  if (!set) {
    if (set.error().message().empty()) std::abort();
    return;
  }
  const SampleSet& samples = **set;
  if (samples.samples() == 0) std::abort();
  std::vector<std::uint8_t> buffer;
  for (std::uint64_t i = 0; i < samples.samples(); ++i) {
    if (samples.label(i) >= samples.classes().size() || samples.name(i).empty()) std::abort();
    const auto bytes = samples.read(i, buffer);
    if (bytes ? bytes->empty() : bytes.error().message().empty()) std::abort();
  }
  const auto report = check(samples);
  if (!report || report->samples != samples.samples()) std::abort();
}

void expect_inside(const std::string& bytes) {
  constexpr std::uint64_t kFileBytes = 1U << 20U;
  const std::vector<std::uint8_t> kept(bytes.begin(), bytes.end());
  const auto entries = parse_kept(kept, kFileBytes);
  if (!entries) return;
  for (const ShardEntry& entry : *entries) {
    if (entry.bytes == 0 || entry.offset + entry.bytes > kFileBytes) std::abort();
  }
  if (kept_form(*entries) != kept) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      expect_right(open_webdataset(folder.write("train-0.tar", rest), Split::kTrain));
      break;
    case 1:
      expect_right(open_webdataset(folder.write("train-0.tar", right_tar(rest)), Split::kTrain));
      break;
    case 2:
      expect_right(open_tfrecord(folder.write("train-0.tfrecord", rest), Split::kTrain));
      break;
    case 3:
      expect_right(
          open_tfrecord(folder.write("train-0.tfrecord", right_record(rest)), Split::kTrain));
      break;
    case 4:
      expect_right(open_packed(folder.write("train.phub", rest), Split::kTrain));
      break;
    case 5:
      expect_right(open_packed(folder.write("train.phub", right_pack(rest)), Split::kTrain));
      break;
    default:
      expect_inside(rest);
  }
  return 0;
}
