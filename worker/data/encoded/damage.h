// The damaged images of a set: each is named once, and too many are an error.
//
// Any thread may report.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::data {

class DamageLog {
 public:
  // `note` may be empty. It is called by one thread at a time.
  DamageLog(std::uint64_t damaged_max, std::function<void(std::string_view)> note);

  // `error` names the image. Ok: another image may take its place. Error: kDataLoss, more images
  // are damaged than may be.
  Status report(std::uint64_t image, const Status& error);

  std::uint64_t damaged() const;

 private:
  const std::uint64_t damaged_max_;
  const std::function<void(std::string_view)> note_;
  mutable std::mutex mutex_;
  std::set<std::uint64_t> images_;
};

}  // namespace phub::data
