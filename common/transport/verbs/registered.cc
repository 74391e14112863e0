#include "common/transport/verbs/registered.h"

namespace phub::transport::verbs {

Result<std::shared_ptr<Registered>> register_both(std::shared_ptr<const OpenDevice> device,
                                                  const MemoryRegion& source,
                                                  const MemoryRegion& window) {
  auto registered = std::make_shared<Registered>();
  PHUB_ASSIGN_OR_RETURN(registered->domain, make_domain(*device));
  PHUB_ASSIGN_OR_RETURN(registered->source,
                        register_memory(*registered->domain, source, RegionAccess::kSource));
  PHUB_ASSIGN_OR_RETURN(registered->window,
                        register_memory(*registered->domain, window, RegionAccess::kWindow));
  registered->window_bytes = window.bytes;
  registered->device = std::move(device);
  return registered;
}

VerbsRegions regions_of(const std::shared_ptr<Registered>& registered) {
  return {.owner = registered,
          .domain = registered->domain.get(),
          .source_key = registered->source->lkey,
          .window_key = registered->window->rkey,
          .window = registered->window_bytes};
}

}  // namespace phub::transport::verbs
