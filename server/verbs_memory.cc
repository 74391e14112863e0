#include "server/verbs_memory.h"

#include <algorithm>

namespace phub::server {

using transport::verbs::Access;

Result<std::shared_ptr<VerbsMemory>> VerbsMemory::create(
    std::shared_ptr<const transport::verbs::OpenDevice> device,
    std::shared_ptr<const JobMemory> memory, const JobShape& shape,
    const std::vector<std::uint32_t>& cores) {
  std::shared_ptr<VerbsMemory> verbs(new VerbsMemory());
  PHUB_ASSIGN_OR_RETURN(verbs->domain_, transport::verbs::make_domain(*device));
  PHUB_ASSIGN_OR_RETURN(verbs->parameters_,
                        transport::verbs::register_memory(
                            *verbs->domain_, {memory->published->data(), memory->published->size()},
                            Access::kSource));
  verbs->sections_.resize(shape.plan->core_chunks[shape.server_index].size());
  for (const std::uint32_t core : cores) {
    Landing landing = make_landing(*shape.plan, shape.server_index, core, size_of(shape.wire_type));
    verbs->sections_[core].offset = verbs->window_bytes_;
    verbs->window_bytes_ += landing.bytes;
    verbs->sections_[core].landing = std::make_shared<const Landing>(std::move(landing));
  }
  verbs->windows_.resize(shape.workers);
  verbs->device_ = std::move(device);
  verbs->memory_ = std::move(memory);
  return verbs;
}

std::uint64_t VerbsMemory::window_bytes() const {
  const auto made = std::count_if(windows_.begin(), windows_.end(),
                                  [](const Windows& windows) { return windows.memory != nullptr; });
  return window_bytes_ * static_cast<std::uint64_t>(made);
}

Result<transport::VerbsMemory> VerbsMemory::of(std::uint32_t worker, std::uint32_t core) {
  Windows& windows = windows_[worker];
  if (!windows.registration) {
    PHUB_ASSIGN_OR_RETURN(windows.memory, Mapping::anonymous(window_bytes_));
    PHUB_ASSIGN_OR_RETURN(
        windows.registration,
        transport::verbs::register_memory(
            *domain_, {windows.memory->data(), windows.memory->size()}, Access::kWindow));
  }
  const Section& section = sections_[core];
  return transport::VerbsMemory{
      .owner = shared_from_this(),
      .domain = domain_.get(),
      .source_key = parameters_->lkey,
      .window_key = windows.registration->rkey,
      .window = {windows.memory->data() + section.offset, section.landing->bytes}};
}

}  // namespace phub::server
