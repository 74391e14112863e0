#include "server/plane/verbs_memory.h"

namespace phub::server {

using transport::verbs::RegionAccess;

Result<std::shared_ptr<VerbsMemory>> VerbsMemory::create(
    std::shared_ptr<const transport::verbs::OpenDevice> device,
    std::shared_ptr<const JobMemory> memory, const JobLayout& layout,
    const std::vector<std::uint32_t>& cores) {
  std::shared_ptr<VerbsMemory> verbs(new VerbsMemory());
  verbs->sections_.resize(layout.plan->core_chunks[layout.server_index].size());
  for (const std::uint32_t core : cores) {
    WindowLayout window =
        make_window_layout(*layout.plan, layout.server_index, core, size_of(layout.wire_type));
    verbs->sections_[core].offset = verbs->window_bytes_;
    verbs->window_bytes_ += window.bytes;
    verbs->sections_[core].layout = std::make_shared<const WindowLayout>(std::move(window));
  }
  verbs->workers_.resize(seats(layout));
  verbs->device_ = std::move(device);
  verbs->memory_ = std::move(memory);
  return verbs;
}

Status VerbsMemory::open(Worker& worker) const {
  using transport::verbs::register_memory;
  const SharedMemory& published = *memory_->published;
  PHUB_ASSIGN_OR_RETURN(worker.domain, transport::verbs::make_domain(*device_));
  PHUB_ASSIGN_OR_RETURN(
      worker.parameters,
      register_memory(*worker.domain, {published.data(), published.size()}, RegionAccess::kSource));
  PHUB_ASSIGN_OR_RETURN(worker.windows, Mapping::anonymous(window_bytes_, Pages::kReserved));
  PHUB_ASSIGN_OR_RETURN(
      worker.window,
      register_memory(*worker.domain, {worker.windows->data(), worker.windows->size()},
                      RegionAccess::kWindow));
  return {};
}

Result<transport::VerbsRegions> VerbsMemory::of(std::uint32_t index, std::uint32_t core) {
  Worker& worker = workers_[index];
  if (!worker.window) {
    Worker fresh;
    PHUB_RETURN_IF_ERROR(open(fresh));
    worker = std::move(fresh);
    open_bytes_.fetch_add(window_bytes_, std::memory_order_relaxed);
    if (worker.windows->pages() == Pages::kReserved) {
      reserved_bytes_.fetch_add(window_bytes_, std::memory_order_relaxed);
    }
  }
  const Section& section = sections_[core];
  return transport::VerbsRegions{
      .owner = shared_from_this(),
      .domain = worker.domain.get(),
      .source_key = worker.parameters->lkey,
      .window_key = worker.window->rkey,
      .mirrored = memory_->arena.is_whole() ? memory_->published->data() : nullptr,
      .window = {worker.windows->data() + section.offset, section.layout->bytes}};
}

}  // namespace phub::server
