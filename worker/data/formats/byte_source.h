// Bytes that stay what they were while a set is open: a file here (source_file.h) or on a server
// (http/http_file.h).
//
// Any thread may read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // What messages call it. Printable, without a password.
  virtual std::string name() const = 0;
  virtual std::uint64_t bytes() const = 0;
  // Each read takes a round trip, so that a few large ones are better than many small ones.
  virtual bool is_far() const { return false; }
  // Fills `into` from `offset` on. Errors: kDataLoss where it ends before or has changed,
  // kUnavailable where its server cannot be reached.
  virtual Status read(std::uint64_t offset, std::span<std::uint8_t> into) const = 0;

  // kDataLoss: "NAME is damaged at offset N: WHAT; fetch or make the file again".
  Status damaged(std::uint64_t offset, std::string_view what) const {
    return {Code::kDataLoss, name() + " is damaged at offset " + std::to_string(offset) + ": " +
                                 std::string(what) + "; fetch or make the file again"};
  }
  // kDataLoss: the source ends within `bytes` bytes from `offset` on.
  Status ends_within(std::uint64_t offset, std::uint64_t bytes) const {
    return damaged(
        offset, "the file ends within the " + std::to_string(bytes) + " bytes that are to be here");
  }
  // kInvalidArgument: "NAME, offset N: WHAT", which ends with the cure.
  Status refused(std::uint64_t offset, std::string_view what) const {
    return {Code::kInvalidArgument,
            name() + ", offset " + std::to_string(offset) + ": " + std::string(what)};
  }
};

}  // namespace phub::data
