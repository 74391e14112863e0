// TFRecord: a length, its checksum, that many bytes, and their checksum, again and again.
#include "common/protocol/crc32c.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/shards/example.h"
#include "worker/data/formats/shards/shard_set.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kHeadBytes = 12;
constexpr std::uint64_t kTailBytes = 4;

std::uint64_t number_in(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = (value << 8U) | bytes[i - 1];
  return value;
}

// TensorFlow's mask, so that a checksum of checksums is no accident.
std::uint32_t masked_crc32c(std::span<const std::uint8_t> bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(bytes));
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

Status add_record(FileWindow& window, std::uint64_t offset, std::uint64_t bytes,
                  const TfRecordFeatures& features, ShardSamples& into) {
  const ByteSource& file = window.file();
  const auto found = find_in_example(window, offset, bytes, features);
  if (!found) {
    if (found.error().code() != Code::kInvalidArgument) return found.error();
    return file.refused(offset, found.error().message());
  }
  if (found->image_bytes == 0) {
    return file.refused(offset, "the Example's image has no bytes; leave it out");
  }
  return into.add(file, offset, bytes, found->label);
}

Status scan_records(const ByteSource& file, const TfRecordFeatures& features, ShardSamples& into) {
  FileWindow window(file);
  std::uint64_t offset = 0;
  while (offset < file.bytes()) {
    PHUB_ASSIGN_OR_RETURN(const auto head, window.at(offset, kHeadBytes));
    const std::uint64_t bytes = number_in(head.first(8));
    if (masked_crc32c(head.first(8)) != number_in(head.subspan(8))) {
      return file.damaged(offset, "the checksum of a record's length is wrong");
    }
    const std::uint64_t left = file.bytes() - offset - kHeadBytes;
    if (bytes > left || left - bytes < kTailBytes) {
      return file.damaged(offset, "a record of " + std::to_string(bytes) +
                                      " bytes, but the file has " + std::to_string(left) +
                                      " more, with the checksum");
    }
    if (bytes > kMaxSampleBytes) {
      return file.refused(offset, "a record of " + std::to_string(bytes) + " bytes; the most is " +
                                      std::to_string(kMaxSampleBytes) + ": leave it out");
    }
    PHUB_RETURN_IF_ERROR(add_record(window, offset + kHeadBytes, bytes, features, into));
    offset += kHeadBytes + bytes + kTailBytes;
  }
  return {};
}

class RecordFormat final : public ShardFormat {
 public:
  explicit RecordFormat(const TfRecordFeatures& features) : features_(features) {}

  void add_to(Fingerprint& number) const override {
    number.add("tfrecord").add(features_.image).add(features_.label);
  }
  Status scan(const ByteSource& file, ShardSamples& into) const override {
    return scan_records(file, features_, into);
  }
  Result<std::span<const std::uint8_t>> read(const ByteSource& file, const ShardEntry& entry,
                                             std::vector<std::uint8_t>& buffer) const override {
    buffer.resize(entry.bytes + kTailBytes);
    PHUB_RETURN_IF_ERROR(file.read(entry.offset, buffer));
    const std::span<const std::uint8_t> all(buffer);
    const auto message = all.first(entry.bytes);
    if (masked_crc32c(message) != number_in(all.subspan(entry.bytes))) {
      return file.damaged(entry.offset, "the record's checksum is wrong");
    }
    // The label was read before the checksum was.
    const auto found = find_in_example(message, features_);
    if (!found || found->label != entry.label) {
      return file.damaged(entry.offset, "the record is not the one that was here at first");
    }
    return message.subspan(found->image_offset, found->image_bytes);
  }

 private:
  TfRecordFeatures features_;
};

}  // namespace

Result<std::unique_ptr<SampleSet>> open_tfrecord(const std::filesystem::path& path, Split split,
                                                 const TfRecordFeatures& features,
                                                 const OpenOptions& options) {
  return open_shard_set(path, split, ShardKind::kTfRecord, std::make_unique<RecordFormat>(features),
                        options);
}

}  // namespace phub::data
