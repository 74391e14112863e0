// A number of what a set consists of: another set, or a changed one, has another number.
//
// A value; one thread. It does not withstand who looks for two sets with one number.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/base/splitmix.h"

namespace phub::data {

class Fingerprint {
 public:
  Fingerprint& add(std::uint64_t number) {
    value_ = splitmix64(value_ ^ number, ++added_);
    return *this;
  }
  Fingerprint& add(std::string_view bytes) {
    add(bytes.size());
    while (!bytes.empty()) {
      std::uint64_t word = 0;
      const std::size_t count = bytes.size() < sizeof(word) ? bytes.size() : sizeof(word);
      std::memcpy(&word, bytes.data(), count);
      add(word);
      bytes.remove_prefix(count);
    }
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0, added_ = 0;
};

}  // namespace phub::data
