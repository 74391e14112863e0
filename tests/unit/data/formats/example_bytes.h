// tf.train.Example as protobuf itself writes it, and records of TFRecord around it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace phub::data {

// `text` is the message in protobuf's text format.
std::string example_bytes(const std::string& text);

// An image and a label under TensorFlow's usual names, between other features.
std::string image_example(const std::string& image, std::int64_t label);

// In quotes, as the text format has bytes.
std::string quoted(const std::string& bytes);

std::string tf_record(const std::string& content);
// A record's length with its checksum, and nothing behind it.
std::string tf_record_head(std::uint64_t bytes);

}  // namespace phub::data
