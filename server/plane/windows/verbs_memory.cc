#include "server/plane/windows/verbs_memory.h"

namespace phub::server {

using transport::verbs::RegionAccess;
using transport::verbs::register_memory;

Result<std::shared_ptr<VerbsMemory>> VerbsMemory::create(
    std::shared_ptr<const transport::verbs::OpenDevice> device,
    std::shared_ptr<const JobMemory> memory, const JobLayout& layout,
    const std::vector<std::uint32_t>& cores) {
  std::shared_ptr<VerbsMemory> verbs(new VerbsMemory(layout.workers));
  verbs->for_worker_ = windows_of(layout, size_of(layout.wire_type), cores);
  verbs->members_.resize(seats(layout));
  if (!layout.rack.is_alone()) {
    // A first round's sums are initial parameters, in fp32.
    verbs->for_rack_ = windows_of(layout, sizeof(float), cores);
    verbs->above_.resize(layout.rack.racks());
  }
  verbs->device_ = std::move(device);
  verbs->memory_ = std::move(memory);
  return verbs;
}

VerbsMemory::Windows VerbsMemory::windows_of(const JobLayout& layout, std::size_t element_bytes,
                                             const std::vector<std::uint32_t>& cores) {
  Windows windows;
  windows.sections.resize(layout.plan->core_chunks[layout.server_index].size());
  for (const std::uint32_t core : cores) {
    WindowLayout window = make_window_layout(*layout.plan, layout.server_index, core, element_bytes,
                                             layout.checksums);
    windows.sections[core].offset = windows.bytes;
    windows.bytes += window.bytes;
    windows.sections[core].layout = std::make_shared<const WindowLayout>(std::move(window));
  }
  return windows;
}

Status VerbsMemory::open(Member& member, const SharedMemory& replies,
                         std::uint64_t window_bytes) const {
  PHUB_ASSIGN_OR_RETURN(member.domain, transport::verbs::make_domain(*device_));
  PHUB_ASSIGN_OR_RETURN(
      member.source,
      register_memory(*member.domain, {replies.data(), replies.size()}, RegionAccess::kSource));
  PHUB_ASSIGN_OR_RETURN(member.windows, Mapping::anonymous(window_bytes, Pages::kReserved));
  PHUB_ASSIGN_OR_RETURN(
      member.window,
      register_memory(*member.domain, {member.windows->data(), member.windows->size()},
                      RegionAccess::kWindow));
  return {};
}

// Another rack has the same chunks in the same order, whatever a worker has.
Result<transport::VerbsRegions> VerbsMemory::of(std::uint32_t seat, std::uint32_t core) {
  Member& member = members_[seat];
  const bool is_rack = seat >= workers_;
  const Windows& windows = is_rack ? for_rack_ : for_worker_;
  const SharedMemory& replies = is_rack ? memory_->rack_replies() : *memory_->published;
  if (!member.window) {
    Member fresh;
    PHUB_RETURN_IF_ERROR(open(fresh, replies, windows.bytes));
    member = std::move(fresh);
    open_bytes_.fetch_add(windows.bytes, std::memory_order_relaxed);
    if (member.windows->pages() == Pages::kReserved) {
      reserved_bytes_.fetch_add(windows.bytes, std::memory_order_relaxed);
    }
  }
  const Section& section = windows.sections[core];
  const bool is_mirrored = is_rack || memory_->arena.is_whole();
  return transport::VerbsRegions{
      .owner = shared_from_this(),
      .domain = member.domain.get(),
      .source_key = member.source->lkey,
      .window_key = member.window->rkey,
      .mirrored = is_mirrored ? replies.data() : nullptr,
      .window = {member.windows->data() + section.offset, section.layout->bytes}};
}

Status VerbsMemory::open_towards(Member& member) const {
  const SharedMemory& sums = *memory_->rack_sums;
  const SharedMemory& replies = memory_->rack_replies();
  PHUB_ASSIGN_OR_RETURN(member.domain, transport::verbs::make_domain(*device_));
  PHUB_ASSIGN_OR_RETURN(member.source, register_memory(*member.domain, {sums.data(), sums.size()},
                                                       RegionAccess::kSource));
  PHUB_ASSIGN_OR_RETURN(
      member.window,
      register_memory(*member.domain, {replies.data(), replies.size()}, RegionAccess::kWindow));
  return {};
}

Result<transport::VerbsRegions> VerbsMemory::towards(std::uint32_t rack) {
  Member& member = above_[rack];
  if (!member.window) {
    Member fresh;
    PHUB_RETURN_IF_ERROR(open_towards(fresh));
    member = std::move(fresh);
  }
  const SharedMemory& replies = memory_->rack_replies();
  return transport::VerbsRegions{.owner = shared_from_this(),
                                 .domain = member.domain.get(),
                                 .source_key = member.source->lkey,
                                 .window_key = member.window->rkey,
                                 .window = {replies.data(), replies.size()}};
}

}  // namespace phub::server
