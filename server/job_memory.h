// The parameters of one job on one server.
//
// Made by a control thread, shared by the job's shards; each core writes its own chunks only.
// Offsets are those of the plan's arena, on every server; chunks that live elsewhere are never
// touched and cost no memory.
#pragma once

#include <memory>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/transport/tcp/sealed_stream.h"
#include "server/data_plane.h"

namespace phub::server {

inline std::uint64_t elements_here(const JobShape& shape) {
  std::uint64_t elements = 0;
  for (const Chunk& chunk : shape.plan->chunks) {
    if (chunk.server == shape.server_index) elements += chunk.elements;
  }
  return elements;
}

// Of one server's chunks: parameters and optimizer state, without staging; sums that are held until
// the job's workers have voted, or its longest keys are whole, count as all of them.
inline std::uint64_t bytes_needed(const JobShape& shape) {
  const std::uint64_t wire = size_of(shape.wire_type);
  const std::uint64_t master = shape.wire_type == DataType::kFloat32 ? 0 : sizeof(float);
  const std::uint64_t held = gathers_sums(shape) ? sizeof(float) : 0;
  return elements_here(shape) * (wire + master + held + state_arrays(shape.rule) * sizeof(float));
}

// What a snapshot takes while it is made: the copy, and as much again for the tensors of its file.
inline std::uint64_t bytes_copied(const JobShape& shape) {
  return 2 * elements_here(shape) * (1 + state_arrays(shape.rule)) * sizeof(float);
}

// What the data plane offers, as far as a job's memory depends on it.
struct Offered {
  bool windows = false;  // RDMA: each worker may have a window of its chunks here, and the whole
                         // arena is registered
  bool sealing = false;  // encrypted tcp: each connection has a buffer to seal into
};

// The most that the job pins here, which admission counts.
inline std::uint64_t bytes_pinned(const JobShape& shape, const Offered& offered) {
  std::uint64_t bytes = bytes_needed(shape);
  if (offered.sealing) {
    const std::uint64_t cores = shape.plan->core_chunks[shape.server_index].size();
    bytes += shape.workers * cores * transport::SealedStream::buffer_bytes();
  }
  if (offered.windows) {
    const std::uint64_t elements = elements_here(shape);
    const std::uint64_t elsewhere = shape.plan->arena_elements - elements;
    bytes += (elements * shape.workers + elsewhere) * size_of(shape.wire_type);
  }
  return bytes;
}

struct JobMemory {
  // What workers read, in the wire type; local workers map it read-only.
  std::unique_ptr<SharedMemory> published;
  UniqueFd published_fd;            // read-only, for workers
  std::unique_ptr<Mapping> master;  // fp32 parameters; null if the wire type is fp32 (`published`)
  std::unique_ptr<Mapping> state;   // fp32 optimizer state, or null

  // `published_pages`: where RDMA devices read, kReserved.
  static Result<std::shared_ptr<JobMemory>> create(const JobShape& shape,
                                                   Pages published_pages = Pages::kTransparent) {
    auto memory = std::make_shared<JobMemory>();
    const std::size_t elements = shape.plan->arena_elements;
    PHUB_ASSIGN_OR_RETURN(
        memory->published,
        SharedMemory::create("phub-parameters", elements * size_of(shape.wire_type),
                             published_pages));
    PHUB_ASSIGN_OR_RETURN(memory->published_fd, memory->published->share_read_only());
    if (shape.wire_type != DataType::kFloat32) {
      PHUB_ASSIGN_OR_RETURN(memory->master, Mapping::anonymous(elements * sizeof(float)));
    }
    if (state_arrays(shape.rule) > 0) {
      PHUB_ASSIGN_OR_RETURN(memory->state, Mapping::anonymous(elements * sizeof(float)));
    }
    return memory;
  }

  float* parameters() const {
    return reinterpret_cast<float*>(master ? master->data() : published->data());
  }
  float* optimizer_state() const {
    return state ? reinterpret_cast<float*>(state->data()) : nullptr;
  }
  std::size_t reserved_page_bytes() const {
    return published->pages() == Pages::kReserved ? published->size() : 0;
  }
  std::size_t resident_bytes() const {
    return published->resident_bytes() + (master ? master->resident_bytes() : 0) +
           (state ? state->resident_bytes() : 0);
  }
};

}  // namespace phub::server
