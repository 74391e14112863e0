// Where one-sided pushes land: the layout of the window that a core gives to a worker.
//
// A line of words first (wire::offset_in_line), then the core's chunks by slot, each on cache lines
// of its own. Both ends compute the same from the plan. A value; immutable, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace phub {

struct WindowLayout {
  std::vector<std::uint64_t> slots;  // bytes from the start of the window, as all here
  // By slot, where a local worker puts a chunk's checksum; empty: there are none, or they follow
  // what is pushed.
  std::vector<std::uint64_t> checksums = {};
  std::uint64_t bytes = 0;  // of the window, a multiple of the page size
};

// With elements of `element_bytes` on the wire. A slot with a checksum has room for it behind the
// chunk.
WindowLayout make_window_layout(const Plan& plan, std::uint32_t server, std::uint32_t core,
                                std::size_t element_bytes, bool checksums = false);

// Where the same pushes are in the memory that a local worker shares (common/protocol/wire.h), in
// bytes from its line for this core on, so that words are where a window has them. `bytes`
// reaches to the end of the memory.
WindowLayout make_shared_window_layout(const Plan& plan, std::uint32_t server, std::uint32_t core,
                                       std::size_t element_bytes, bool checksums = false);
// Of that line, in bytes from the start of the memory.
std::uint64_t shared_line_offset(const Plan& plan, std::uint32_t server, std::uint32_t core);
// Of the checksums, one for each chunk in the plan's order, behind the arena: in bytes from the
// start of the memory.
std::uint64_t shared_checksums_offset(const Plan& plan, std::size_t element_bytes);
// Of all that a local worker shares.
std::uint64_t shared_memory_bytes(const Plan& plan, std::size_t element_bytes,
                                  bool checksums = false);

// Where a worker of a job that clips over several servers is told norms: a line for each
// connection, behind the arena of its parameters, in bytes from the start of that. Of a core's
// line, and of all of it.
std::uint64_t norm_line_offset(const Plan& plan, std::uint32_t server, std::uint32_t core,
                               std::size_t element_bytes);
std::uint64_t parameters_and_norms_bytes(const Plan& plan, std::size_t element_bytes);

// Where over verbs a worker is told what changed of a chunk alone: a second arena behind its
// parameters, and behind the norms of a job that has them, in bytes from the start of these. Of
// that arena, and of all of it.
std::uint64_t changes_offset(const Plan& plan, std::size_t element_bytes, bool has_norms);
std::uint64_t parameters_and_changes_bytes(const Plan& plan, std::size_t element_bytes,
                                           bool has_norms);

}  // namespace phub
