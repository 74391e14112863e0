#include "worker/data/formats/shards/example.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <string>

#include "common/base/log_value.h"

namespace phub::data {
namespace {

namespace io = google::protobuf::io;
using google::protobuf::internal::WireFormatLite;

constexpr std::uint32_t tag_of(int field, WireFormatLite::WireType type) {
  return (static_cast<std::uint32_t>(field) << 3U) | static_cast<std::uint32_t>(type);
}
constexpr std::uint32_t kFirst = tag_of(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr std::uint32_t kSecond = tag_of(2, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr std::uint32_t kThird = tag_of(3, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr std::uint32_t kFirstNumber = tag_of(1, WireFormatLite::WIRETYPE_VARINT);
constexpr int kMaxNameBytes = 1024;

// What a Feature holds, as far as it is wanted: of bytes the place, of numbers the value.
struct FoundFeature {
  int images = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  int labels = 0;
  std::int64_t label = 0;
};

class ExampleWalk {
 public:
  ExampleWalk(io::CodedInputStream& input, const TfRecordFeatures& features)
      : input_(input), features_(features) {}

  // False: the message is damaged.
  bool run(int bytes) {
    const auto limit = input_.PushLimit(bytes);
    const bool is_right = each([&](std::uint32_t tag) {
      if (tag != kFirst) return skip(tag);
      return nested([&] { return features(); });
    });
    input_.PopLimit(limit);
    return is_right;
  }

  const FoundFeature& image() const { return image_; }
  const FoundFeature& label() const { return label_; }

 private:
  bool skip(std::uint32_t tag) { return WireFormatLite::SkipField(&input_, tag); }

  // Calls `field` with the tag of each field, up to the message's end.
  template <typename Field>
  bool each(const Field& field) {
    while (const std::uint32_t tag = input_.ReadTag()) {
      if (!field(tag)) return false;
    }
    return input_.ConsumedEntireMessage();
  }

  // Reads the length of what is inside, and calls `inside`, which reads no further.
  template <typename Inside>
  bool nested(const Inside& inside) {
    std::uint32_t bytes = 0;
    if (!input_.ReadVarint32(&bytes) || !fits(bytes)) return false;
    const auto limit = input_.PushLimit(static_cast<int>(bytes));
    if (!inside()) return false;
    input_.PopLimit(limit);
    return true;
  }

  bool fits(std::uint32_t bytes) const {
    const int left = input_.BytesUntilLimit();
    return left >= 0 && bytes <= static_cast<std::uint32_t>(left);
  }

  bool features() {
    return each([&](std::uint32_t tag) {
      if (tag != kFirst) return skip(tag);
      return nested([&] { return entry(); });
    });
  }

  // An entry of the map. The last one with a name counts.
  bool entry() {
    std::string name;
    FoundFeature found;
    const bool is_right = each([&](std::uint32_t tag) {
      if (tag == kFirst) return read_name(name);
      if (tag != kSecond) return skip(tag);
      found = {};
      return nested([&] { return feature(found); });
    });
    if (name == features_.image) image_ = found;
    if (name == features_.label) label_ = found;
    return is_right;
  }

  bool read_name(std::string& name) {
    std::uint32_t bytes = 0;
    if (!input_.ReadVarint32(&bytes) || !fits(bytes)) return false;
    name.clear();
    if (bytes > kMaxNameBytes) return input_.Skip(static_cast<int>(bytes));
    return input_.ReadString(&name, static_cast<int>(bytes));
  }

  bool feature(FoundFeature& found) {
    return each([&](std::uint32_t tag) {
      if (tag == kFirst) return nested([&] { return bytes_list(found); });
      if (tag == kThird) return nested([&] { return number_list(found); });
      return skip(tag);
    });
  }

  bool bytes_list(FoundFeature& found) {
    return each([&](std::uint32_t tag) {
      if (tag != kFirst) return skip(tag);
      return nested([&] {
        found.images = std::min(found.images + 1, 2);
        found.offset = static_cast<std::uint64_t>(input_.CurrentPosition());
        const int bytes = input_.BytesUntilLimit();
        found.bytes = static_cast<std::uint64_t>(bytes);
        return input_.Skip(bytes);
      });
    });
  }

  // Packed or not.
  bool number_list(FoundFeature& found) {
    return each([&](std::uint32_t tag) {
      if (tag == kFirstNumber) return number(found);
      if (tag != kFirst) return skip(tag);
      return nested([&] {
        while (input_.BytesUntilLimit() > 0) {
          if (!number(found)) return false;
        }
        return true;
      });
    });
  }

  bool number(FoundFeature& found) {
    std::uint64_t value = 0;
    if (!input_.ReadVarint64(&value)) return false;
    found.labels = std::min(found.labels + 1, 2);
    found.label = static_cast<std::int64_t>(value);
    return true;
  }

  io::CodedInputStream& input_;
  const TfRecordFeatures& features_;
  FoundFeature image_;
  FoundFeature label_;
};

// A piece of a file as protobuf reads it. Skipping reads nothing.
class FileStream final : public io::ZeroCopyInputStream {
 public:
  FileStream(FileWindow& window, std::uint64_t begin, std::uint64_t bytes)
      : window_(window), begin_(begin), bytes_(bytes) {}

  bool Next(const void** data, int* size) override {
    if (place_ >= bytes_ || !status_.ok()) return false;
    auto some = window_.some(begin_ + place_);
    if (!some) {
      status_ = some.error();
      return false;
    }
    const std::uint64_t count = std::min<std::uint64_t>(some->size(), bytes_ - place_);
    *data = some->data();
    *size = static_cast<int>(count);
    place_ += count;
    return true;
  }
  void BackUp(int count) override { place_ -= static_cast<std::uint64_t>(count); }
  bool Skip(int count) override {
    const std::uint64_t left = bytes_ - place_;
    place_ += std::min(left, static_cast<std::uint64_t>(count));
    return static_cast<std::uint64_t>(count) <= left;
  }
  std::int64_t ByteCount() const override { return static_cast<std::int64_t>(place_); }

  const Status& status() const { return status_; }

 private:
  FileWindow& window_;
  std::uint64_t begin_;
  std::uint64_t bytes_;
  std::uint64_t place_ = 0;
  Status status_;
};

Status lacks(const std::string& what) { return {Code::kInvalidArgument, what}; }

Result<ExamplePlace> walk(io::CodedInputStream& input, std::uint64_t bytes,
                          const TfRecordFeatures& features) {
  ExampleWalk walk(input, features);
  if (!walk.run(static_cast<int>(bytes))) {
    return lacks("the record is no tf.train.Example; write the data set as such");
  }
  if (walk.image().images != 1) {
    return lacks("the Example must have one value of bytes in the feature " +
                 log_value(features.image) + "; write it there, or name the feature that has it");
  }
  if (walk.label().labels != 1 || walk.label().label < 0) {
    return lacks("the Example must have one integer from 0 on in the feature " +
                 log_value(features.label) + "; write it there, or name the feature that has it");
  }
  return ExamplePlace{.image_offset = walk.image().offset,
                      .image_bytes = walk.image().bytes,
                      .label = static_cast<std::uint64_t>(walk.label().label)};
}

}  // namespace

Result<ExamplePlace> find_in_example(std::span<const std::uint8_t> message,
                                     const TfRecordFeatures& features) {
  io::CodedInputStream input(message.data(), static_cast<int>(message.size()));
  return walk(input, message.size(), features);
}

Result<ExamplePlace> find_in_example(FileWindow& window, std::uint64_t offset, std::uint64_t bytes,
                                     const TfRecordFeatures& features) {
  FileStream stream(window, offset, bytes);
  io::CodedInputStream input(&stream);
  Result<ExamplePlace> found = walk(input, bytes, features);
  if (!stream.status().ok()) return stream.status();
  return found;
}

}  // namespace phub::data
