// Where each parameter of a network lies in the one array that holds all of them, and what the
// optimizer may do to it.
//
// Offsets are those of the exchange's plan (common/plan/plan.h), which depend on the keys' sizes,
// the wire type and the chunk size only, not on servers or cores: so the table is also the layout
// in which servers keep the keys. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// A key: one parameter tensor.
struct KeySegment {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // elements from the start of the array
  std::uint64_t elements = 0;
  std::uint32_t first_chunk = 0;  // the chunks that hold parts of it
  std::uint32_t chunks = 0;
  DataType type = DataType::kFloat32;
  bool decay = false;  // weight decay is for it
  bool lars = false;   // layer-wise rates are for it
};

struct SegmentOptions {
  DataType type = DataType::kFloat32;  // of the elements on the wire
  std::uint32_t chunk_bytes = 32 * 1024;
};

// The offsets alone, for keys of these sizes, and the array's length, in elements. Errors as below.
struct KeyLayout {
  std::vector<std::uint64_t> offsets;
  std::uint64_t elements = 0;
};
Result<KeyLayout> key_layout(const std::vector<std::uint64_t>& key_elements,
                             const SegmentOptions& options);

class SegmentTable {
 public:
  // Of all parameters, in forward order. Errors: kInvalidArgument for a graph without parameters
  // and for a chunk size that the plan does not take.
  static Result<SegmentTable> of(const Graph& graph, const SegmentOptions& options);

  std::span<const KeySegment> segments() const { return segments_; }
  std::uint64_t elements() const { return elements_; }  // of the array, padding included
  std::uint32_t chunks() const { return chunks_; }

 private:
  std::vector<KeySegment> segments_;
  std::uint64_t elements_ = 0;
  std::uint32_t chunks_ = 0;
};

}  // namespace phub::nn
