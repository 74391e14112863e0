// Room on the disk that is kept for what must be written even when it is full: a file of that size
// beside the state, which is removed to make room and made again when there is some.
//
// Owned by the Store, used under its mutex.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace phub::server {

class Reserve {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{4} << 20;

  // `path` empty: there is none.
  explicit Reserve(std::string path) : path_(std::move(path)) {}

  // Makes it if it is not there and as much again stays free. Errors: kResourceExhausted.
  Status fill();
  // False: there was none to give.
  bool give_back();

 private:
  const std::string path_;
  bool is_filled_ = false;  // as far as this process knows
};

}  // namespace phub::server
