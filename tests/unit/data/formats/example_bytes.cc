#include "tests/unit/data/formats/example_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <memory>
#include <span>

#include "common/protocol/crc32c.h"

namespace phub::data {
namespace {

namespace pb = google::protobuf;

// tensorflow/core/example/{example,feature}.proto. A map is the repeated message `Entry` on the
// wire; without a map's options protobuf writes the entries in the order of the text.
constexpr const char* kDescriptor = R"(
  name: 'example' syntax: 'proto3'
  message_type { name: 'BytesList'
    field { name: 'value' number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
  message_type { name: 'FloatList'
    field { name: 'value' number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
  message_type { name: 'Int64List'
    field { name: 'value' number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
  message_type { name: 'Feature' oneof_decl { name: 'kind' }
    field { name: 'bytes_list' number: 1 label: LABEL_OPTIONAL oneof_index: 0
            type: TYPE_MESSAGE type_name: '.BytesList' }
    field { name: 'float_list' number: 2 label: LABEL_OPTIONAL oneof_index: 0
            type: TYPE_MESSAGE type_name: '.FloatList' }
    field { name: 'int64_list' number: 3 label: LABEL_OPTIONAL oneof_index: 0
            type: TYPE_MESSAGE type_name: '.Int64List' } }
  message_type { name: 'Entry'
    field { name: 'key' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: 'value' number: 2 label: LABEL_OPTIONAL
            type: TYPE_MESSAGE type_name: '.Feature' } }
  message_type { name: 'Features'
    field { name: 'feature' number: 1 label: LABEL_REPEATED
            type: TYPE_MESSAGE type_name: '.Entry' } }
  message_type { name: 'Example'
    field { name: 'features' number: 1 label: LABEL_OPTIONAL
            type: TYPE_MESSAGE type_name: '.Features' } })";

std::string number(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string masked(const std::string& bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span<const char>(bytes)));
  return number(((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U, 4);
}

}  // namespace

std::string example_bytes(const std::string& text) {
  pb::FileDescriptorProto file;
  REQUIRE(pb::TextFormat::ParseFromString(kDescriptor, &file));
  pb::DescriptorPool pool;
  const pb::FileDescriptor* const built = pool.BuildFile(file);
  REQUIRE(built != nullptr);
  pb::DynamicMessageFactory factory(&pool);
  const std::unique_ptr<pb::Message> message(
      factory.GetPrototype(built->FindMessageTypeByName("Example"))->New());
  REQUIRE(pb::TextFormat::ParseFromString(text, message.get()));
  return message->SerializeAsString();
}

std::string quoted(const std::string& bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += '\\';
    for (const unsigned shift : {6U, 3U, 0U})
      text += static_cast<char>('0' + ((byte >> shift) & 7U));
  }
  return text + '"';
}

std::string image_example(const std::string& image, std::int64_t label) {
  return example_bytes(
      "features {"
      "  feature { key: 'image/height' value { int64_list { value: 400 } } }"
      "  feature { key: 'image/object/bbox/xmin' value { float_list { value: [0.25, 0.5] } } }"
      "  feature { key: 'image/encoded' value { bytes_list { value: " +
      quoted(image) +
      " } } }"
      "  feature { key: 'image/class/label' value { int64_list { value: " +
      std::to_string(label) +
      " } } }"
      "  feature { key: 'image/class/text' value { bytes_list { value: 'tench' } } } }");
}

std::string tf_record_head(std::uint64_t bytes) {
  const std::string length = number(bytes, 8);
  return length + masked(length);
}

std::string tf_record(const std::string& content) {
  return tf_record_head(content.size()) + content + masked(content);
}

}  // namespace phub::data
