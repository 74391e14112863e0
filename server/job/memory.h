// The parameters of one job on one server.
//
// Made by a control thread, shared by the job's shards; each core writes its own chunks only.
// Chunks that live on other servers have no place here (arena.h).
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/memory/memory.h"
#include "server/job/arena.h"
#include "server/job/layout.h"

namespace phub::server {

struct JobMemory {
  explicit JobMemory(const JobLayout& layout)
      : arena(*layout.plan, layout.server_index, layout.wire_type) {}

  const ServerArena arena;  // where each of the three below has a chunk
  // What workers read, in the wire type; local workers map it read-only.
  std::unique_ptr<SharedMemory> published;
  UniqueFd published_fd;            // read-only, for workers
  std::unique_ptr<Mapping> master;  // fp32 parameters; null if the wire type is fp32 (`published`)
  std::unique_ptr<Mapping> state;   // fp32 optimizer state, or null
  std::unique_ptr<Mapping> rack_sums;   // fp32, what is pushed to the racks above; null: one rack
  std::unique_ptr<Mapping> rack_rests;  // fp32, what rounding these left; null: fp32, one rack

  // `published_pages`: where RDMA devices read, kReserved.
  static Result<std::shared_ptr<JobMemory>> create(const JobLayout& layout,
                                                   Pages published_pages = Pages::kTransparent) {
    auto memory = std::make_shared<JobMemory>(layout);
    const std::size_t elements = memory->arena.elements();
    PHUB_ASSIGN_OR_RETURN(
        memory->published,
        SharedMemory::create("phub-parameters", elements * size_of(layout.wire_type),
                             published_pages));
    PHUB_ASSIGN_OR_RETURN(memory->published_fd, memory->published->share_read_only());
    if (layout.wire_type != DataType::kFloat32) {
      PHUB_ASSIGN_OR_RETURN(memory->master, Mapping::anonymous(elements * sizeof(float)));
    }
    if (state_arrays(layout.rule) > 0) {
      PHUB_ASSIGN_OR_RETURN(memory->state, Mapping::anonymous(elements * sizeof(float)));
    }
    if (!layout.rack.is_alone() && layout.rack_wire_type != DataType::kFloat32) {
      PHUB_ASSIGN_OR_RETURN(memory->rack_rests, Mapping::anonymous(elements * sizeof(float)));
    }
    if (!layout.rack.is_alone()) {
      PHUB_ASSIGN_OR_RETURN(memory->rack_sums, Mapping::anonymous(elements * sizeof(float)));
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
  // Of one element of a chunk that has had a round.
  std::size_t element_bytes() const {
    const auto bytes = [](const auto& memory) { return memory ? memory->size() : 0; };
    return (bytes(published) + bytes(master) + bytes(state) + bytes(rack_sums) +
            bytes(rack_rests)) /
           arena.elements();
  }
};

}  // namespace phub::server
