// Labelled images as files hold them: encoded, in a folder, in archives or in one packed file.
//
// A set is read-only once it is open, and any thread may read it. A format is a subclass; the
// functions of open.h make them. Errors are kNotFound (no such file), kDataLoss (a damaged one) and
// kInvalidArgument; they name the file, the offset where there is one, and the cure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "worker/data/formats/read_counts.h"

namespace phub::data {

enum class Split { kTrain, kTest };

// What no set exceeds, whatever its format. `open` and `read` refuse more, with the figures.
inline constexpr std::uint64_t kMaxSamples = 1ULL << 26U;
inline constexpr std::uint64_t kMaxClasses = 1ULL << 16U;
inline constexpr std::uint64_t kMaxSampleBytes = 256ULL << 20U;

constexpr std::string_view name_of(Split split) {
  return split == Split::kTrain ? "train" : "test";
}

// Where the bytes of a sample came from.
enum class Origin : std::uint8_t { kUntold, kOwnMemory, kPeer, kSource };

// What a set says of a sample that it handed out.
struct Receipt {
  std::uint64_t hash = 0;           // of the sample's number and its bytes
  Origin origin = Origin::kUntold;  // kUntold: the set keeps no account, and `hash` is 0
};

class SampleSet {
 public:
  virtual ~SampleSet() = default;

  // At least 1.
  virtual std::uint64_t samples() const = 0;
  // The names of the classes, which may be any bytes. A label is an index into them. Formats that
  // have numbers alone name them by the numbers, up to the largest label of this split.
  virtual const std::vector<std::string>& classes() const = 0;
  // REQUIRES, here and below: sample < samples().
  virtual std::uint16_t label(std::uint64_t sample) const = 0;
  // The bytes of the image's file, for example a JPEG's: 1 to kMaxSampleBytes. They lie in memory
  // of the set, or in `buffer`, and are valid until either goes or `buffer` is read into again.
  // Errors: kDataLoss, for example where the file has become shorter since the set was opened;
  // kUnavailable where a server cannot be reached, and kInvalidArgument where this is not the set
  // to read: these say nothing of the sample.
  virtual Result<std::span<const std::uint8_t>> read(std::uint64_t sample,
                                                     std::vector<std::uint8_t>& buffer) const = 0;
  // The same, with a receipt from a set that keeps account of what it hands out.
  virtual Result<std::span<const std::uint8_t>> deliver(std::uint64_t sample,
                                                        std::vector<std::uint8_t>& buffer,
                                                        Receipt& /*receipt*/) const {
    return read(sample, buffer);
  }
  // Whether `deliver` may return a copy that was made earlier.
  virtual bool has_copies() const { return false; }
  // The same from the source itself: for a sample whose bytes are no image, since the source may
  // have been read before it was complete. What it has now takes the place of this set's copies.
  virtual Result<std::span<const std::uint8_t>> deliver_anew(std::uint64_t sample,
                                                             std::vector<std::uint8_t>& buffer,
                                                             Receipt& receipt) const {
    return deliver(sample, buffer, receipt);
  }
  // What messages call the sample: its file, and its offset in it. Printable.
  virtual std::string name(std::uint64_t sample) const = 0;
  // The memory of the set's index, names included.
  virtual std::uint64_t index_bytes() const { return 0; }
  // A number that a set with other samples does not have, nor one whose files have changed as far
  // as their sizes and times tell. Stays the same from run to run. May take some milliseconds.
  virtual std::uint64_t fingerprint() const;
  // A number by which workers compare their sets: it is that of each copy of a set, wherever it
  // lies and whenever it was written. Sets of one format that differ in their classes, in the
  // number, the order or the labels of their samples, or in what else their index tells of a
  // sample, have not the same one. May take some milliseconds.
  virtual std::uint64_t content_number() const;
  virtual ReadCounts reads() const { return {}; }
};

}  // namespace phub::data
