#include "common/job/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "common/base/rack.h"
#include "common/base/visible.h"
#include "common/job/bounds.h"
#include "common/job/contradictions.h"
#include "common/job/invalid.h"

namespace phub {
namespace {

// Names go into logs and tables.
Status validate_name(std::string_view field, std::string_view name, const JobLimits& limits) {
  if (name.empty()) return invalid("{}: must not be empty", field);
  if (name.size() > limits.name_bytes_max) {
    return invalid("{}: has {} bytes of UTF-8, at most {} are allowed", field, name.size(),
                   limits.name_bytes_max);
  }
  for (const char character : name) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || code == 0x7F) {
      return invalid("{}: has a control character (code {})", field, code);
    }
  }
  if (!is_visible_name(name)) {
    return invalid("{}: {}", field, kVisibleName);
  }
  return {};
}

Status validate_keys(const JobSpec& spec, const JobLimits& limits) {
  if (spec.keys.size() > limits.keys_max) {
    return invalid("keys: {} given, at most {} are allowed; fuse small tensors", spec.keys.size(),
                   limits.keys_max);
  }
  std::unordered_set<std::string_view> names;
  names.reserve(spec.keys.size());
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const KeySpec& key = spec.keys[i];
    PHUB_RETURN_IF_ERROR(validate_name(fmt::format("keys[{}].name", i), key.name, limits));
    if (!names.insert(key.name).second) {
      return invalid("keys[{}].name: \"{}\" is there twice; names are unique in a job", i,
                     key.name);
    }
    if (key.elements == 0 || key.elements > limits.elements_max) {
      return invalid("keys[{}].elements: \"{}\" has {}, allowed are 1 to {}", i, key.name,
                     key.elements, limits.elements_max);
    }
    if (!std::isfinite(key.weight_decay) || key.weight_decay < 0.0F) {
      return invalid("keys[{}].weight_decay: \"{}\" has {}, it must be finite and not negative", i,
                     key.name, key.weight_decay);
    }
    if (key.weight_decay != 0.0F && is_elastic(spec.rule)) {
      return invalid(
          "keys[{}].weight_decay: \"{}\" has {}, but with rule elastic workers decay their own "
          "parameters; leave it out",
          i, key.name, key.weight_decay);
    }
    if (key.exclude_from_lars && !needs_whole_keys(spec.rule)) {
      return invalid(
          "keys[{}].exclude_from_lars: \"{}\" has it, but rule {} has no trust ratio; leave it out",
          i, key.name, name_of(spec.rule));
    }
    elements += key.elements;  // cannot wrap: keys_max * elements_max < 2^64
    if (elements > limits.elements_max) {
      return invalid("keys: more than {} elements in all", limits.elements_max);
    }
  }
  const std::uint64_t chunks = elements * size_of(spec.wire_type) / spec.chunk_bytes;
  if (chunks > limits.chunks_max) {
    return invalid(
        "chunk_bytes: {} cuts {} elements into {} chunks, at most {} are allowed; {} is enough",
        spec.chunk_bytes, elements, chunks, limits.chunks_max,
        std::bit_ceil(elements * size_of(spec.wire_type) / limits.chunks_max + 1));
  }
  return {};
}

Status validate_racks(const JobSpec& spec, const JobLimits& limits) {
  if (spec.racks.empty()) return {};
  if (spec.racks.size() < 2 || spec.racks.size() > kMaxRacks) {
    return invalid("racks: {}, allowed are 2 to {}; leave them out for one", spec.racks.size(),
                   kMaxRacks);
  }
  std::uint64_t workers = 0;
  for (std::size_t i = 0; i < spec.racks.size(); ++i) {
    const RackSpec& rack = spec.racks[i];
    PHUB_RETURN_IF_ERROR(validate_name(fmt::format("racks[{}].name", i), rack.name, limits));
    if (!is_rack_name(rack.name)) {
      return invalid("racks[{}].name: \"{}\" is no name of a rack, as site1/row2/rack3 is", i,
                     rack.name);
    }
    const auto is_same = [&](const RackSpec& other) { return other.name == rack.name; };
    if (std::count_if(spec.racks.begin(), spec.racks.end(), is_same) > 1) {
      return invalid("racks[{}].name: \"{}\" is there twice", i, rack.name);
    }
    if (rack.workers == 0) {
      return invalid("racks[{}].workers: rack \"{}\" has none; leave it out", i, rack.name);
    }
    workers += rack.workers;
  }
  if (spec.rack_shape == RackShape::kNested) {
    const std::string fault = nesting_fault(rack_names_of(spec));
    if (!fault.empty()) return invalid("rack_shape: {}", fault);
  }
  if (workers != spec.workers) {
    return invalid("racks: their workers are {} together, but workers is {}", workers,
                   spec.workers);
  }
  return {};
}

}  // namespace

Status validate(const JobSpec& spec, const JobLimits& limits) {
  PHUB_RETURN_IF_ERROR(validate_name("name", spec.name, limits));
  if (spec.workers == 0 || spec.workers > kMaxWorkers) {
    return invalid("workers: {}, allowed are 1 to {}", spec.workers, kMaxWorkers);
  }
  if (spec.chunk_bytes < limits.chunk_bytes_min || spec.chunk_bytes > limits.chunk_bytes_max ||
      spec.chunk_bytes % kChunkAlignment != 0) {
    return invalid(
        "chunk_bytes: {}, allowed are multiples of {} from {} (smaller ones cost more bookkeeping "
        "than payload) to {}",
        spec.chunk_bytes, std::uint32_t{kChunkAlignment}, limits.chunk_bytes_min,
        limits.chunk_bytes_max);
  }
  PHUB_RETURN_IF_ERROR(check_bounds(spec));
  PHUB_RETURN_IF_ERROR(validate_racks(spec, limits));
  PHUB_RETURN_IF_ERROR(check_contradictions(spec));
  return validate_keys(spec, limits);
}

}  // namespace phub
