// The parameters of one job on one server.
//
// Made by a control thread, shared by the job's shards; each core writes its own chunks only.
// Chunks that live on other servers have no place here (arena.h).
#pragma once

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/memory/memory.h"
#include "common/protocol/wire.h"
#include "server/job/arena.h"
#include "server/job/layout.h"
#include "server/job/norm_board.h"

namespace phub::server {

struct JobMemory {
  explicit JobMemory(const JobLayout& layout)
      : arena(*layout.plan, layout.server_index, layout.wire_type),
        rack_hyper_bytes(combines_sums(layout) ? sizeof(Hyper) : 0),
        rack_words_bytes(wire::hyper_bytes(layout.plan->core_chunks[layout.server_index].size())),
        parameters_bytes(arena.elements() * size_of(layout.wire_type)) {
    for (const auto& core : layout.plan->core_chunks[layout.server_index]) chunks_ += core.size();
  }

  static constexpr std::size_t kLine = 64;

  const ServerArena arena;  // where each of those below has a chunk
  // Before each sum in rack_sums: the Hyper of a reply that is all racks' sum. 0: racks below are
  // replied to with parameters.
  const std::size_t rack_hyper_bytes;
  const std::size_t rack_words_bytes;
  // Of `published`; behind them may follow lines of norms, then what changed, in a job's only
  // server where a worker has it too (common/protocol/window_layout.h).
  const std::size_t parameters_bytes;
  // What workers read, in the wire type; local workers map it read-only, but for rounds.hogwild.
  std::unique_ptr<SharedMemory> published;
  UniqueFd published_fd;            // for workers
  std::unique_ptr<Mapping> master;  // fp32 parameters; null if the wire type is fp32 (`published`)
  std::unique_ptr<Mapping> state;   // fp32, array behind array; null: none
  // What is pushed to the racks above: for each core a line of words, then sums, in fp32 at most;
  // null: one rack. Replies to racks below are there too, if they are sums. A rack on this host
  // maps it.
  std::unique_ptr<SharedMemory> rack_sums;

  std::byte* sparse_replies = nullptr;  // laid out as the parameters; null: replies are whole
  std::unique_ptr<NormBoard> norms;     // of clipped gradients within this server; null: none

  // `published_pages`: where RDMA devices read, kReserved.
  static Result<std::shared_ptr<JobMemory>> create(const JobLayout& layout,
                                                   Pages published_pages = Pages::kTransparent) {
    auto memory = std::make_shared<JobMemory>(layout);
    const std::size_t elements = memory->arena.elements();
    std::size_t published = memory->parameters_bytes;
    if (clips_over_servers(layout)) {
      published += layout.plan->core_chunks[layout.server_index].size() * wire::kHyperStride;
    }
    const std::size_t changes = (published + kLine - 1) / kLine * kLine;
    if (has_sparse_replies(layout)) published = changes + memory->parameters_bytes;
    PHUB_ASSIGN_OR_RETURN(memory->published,
                          SharedMemory::create("phub-parameters", published, published_pages));
    PHUB_ASSIGN_OR_RETURN(memory->published_fd, layout.rounds.hogwild
                                                    ? memory->published->share()
                                                    : memory->published->share_read_only());
    if (layout.wire_type != DataType::kFloat32) {
      PHUB_ASSIGN_OR_RETURN(memory->master, Mapping::anonymous(elements * sizeof(float)));
    }
    if (const unsigned arrays = arrays_in_memory(layout); arrays > 0) {
      PHUB_ASSIGN_OR_RETURN(memory->state, Mapping::anonymous(arrays * elements * sizeof(float)));
    }
    if (!layout.rack.is_alone()) {
      PHUB_ASSIGN_OR_RETURN(memory->rack_sums,
                            SharedMemory::create("phub-rack-sums", memory->rack_bytes()));
    }
    if (has_sparse_replies(layout)) memory->sparse_replies = memory->published->data() + changes;
    if (layout.clip_norm > 0.0F && !clips_over_servers(layout)) {
      memory->norms = std::make_unique<NormBoard>(*layout.plan, layout.server_index);
    }
    return memory;
  }

  // The bytes of rack_sums, and where the words of a core lie in it.
  std::size_t rack_bytes() const {
    return rack_words_bytes + arena.elements() * sizeof(float) + chunks_ * rack_hyper_bytes;
  }
  std::byte* rack_words(std::uint32_t core) const {
    return rack_sums->data() + core * wire::kHyperStride;
  }
  // Where the core's chunks are in rack_sums, by slot, in bytes: with a Hyper, then a sum.
  std::vector<std::uint64_t> rack_offsets(const Plan& plan, std::uint32_t server,
                                          std::uint32_t core) const {
    std::vector<std::uint64_t> offsets(plan.core_chunks[server][core].size());
    std::uint64_t hypers = 0;
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.server != server) continue;
      if (chunk.core == core) {
        const std::uint64_t home = arena.at(chunk.arena_offset);
        offsets[chunk.slot] = rack_words_bytes + home * sizeof(float) + hypers;
      }
      hypers += rack_hyper_bytes;
    }
    return offsets;
  }
  // What racks below are replied to from. REQUIRES: several racks.
  SharedMemory& rack_replies() const { return rack_hyper_bytes > 0 ? *rack_sums : *published; }
  // What the core tells workers of the norm. REQUIRES: clips_over_servers.
  std::byte* norm_line(std::uint32_t core) const {
    return published->data() + parameters_bytes + core * wire::kHyperStride;
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
    const std::size_t changes = sparse_replies == nullptr ? 0 : parameters_bytes;
    return (parameters_bytes + bytes(master) + bytes(state) + changes) / arena.elements() +
           (rack_sums ? sizeof(float) : 0);
  }

 private:
  std::size_t chunks_ = 0;  // of this server
};

}  // namespace phub::server
