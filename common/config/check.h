// Checks of one message of a configuration; the first failure is kept, with its place in the file.
//
// A value for the length of one validation; one thread.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace phub {

inline constexpr std::uint32_t kTcpBufferKibMin = 32;
inline constexpr std::uint32_t kTcpBufferKibMax = 64 * 1024;

class ConfigCheck {
 public:
  using Tree = google::protobuf::TextFormat::ParseInfoTree;

  // `tree` says where fields are in `file`; null: the values do not come from a file. `status` is
  // the first failure.
  ConfigCheck(std::string file, const Tree* tree, const google::protobuf::Message& message,
              Status& status, std::string prefix = {})
      : file_(std::move(file)),
        tree_(tree),
        message_(message),
        status_(status),
        prefix_(std::move(prefix)) {}

  // The checks of the message in `field`, with the same status; `index`: of a repeated field.
  ConfigCheck nested(std::string_view field, const google::protobuf::Message& message,
                     int index = 0) const;

  // Fails with `text` for entry `index` of `field` unless `is_right`.
  void require(bool is_right, std::string_view field, const std::string& text, int index = 0);

  // Fails with `text` for the field at `path`, such as "optimizer.rule".
  void refuse(std::string_view path, const std::string& text);

  void one_of(std::string_view field, std::string_view value,
              std::span<const std::string_view> allowed, int index = 0);
  void one_of(std::string_view field, std::string_view value,
              std::initializer_list<std::string_view> allowed, int index = 0) {
    one_of(field, value, std::span(allowed.begin(), allowed.size()), index);
  }

  void log_level(std::string_view field, std::string_view value) {
    one_of(field, value, {"trace", "debug", "info", "warn", "error", "off"});
  }

  template <typename T>
  void in_range(std::string_view field, T value, T low, T high) {
    require(value >= low && value <= high, field,
            fmt::format("{} is outside the allowed range of {} to {}", value, low, high));
  }

  // `port_min` 0 allows "pick a free one".
  void address(std::string_view field, const std::string& value, std::uint16_t port_min,
               int index = 0);

  // A field that is set but has no effect is a misunderstanding. `why` names what makes it so.
  void unused_unless(bool is_used, std::string_view field, std::string_view why);

 private:
  const google::protobuf::FieldDescriptor* descriptor(std::string_view field) const;
  std::string place_of(std::string_view field, int index) const;

  std::string file_;
  const Tree* tree_;
  const google::protobuf::Message& message_;
  Status& status_;
  std::string prefix_;  // "waiting."
};

}  // namespace phub
