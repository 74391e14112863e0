// A directory of tenants with a store of its own that nothing survives.
#pragma once

#include <memory>
#include <utility>

#include "server/access/directory.h"

namespace phub::testing {

struct StoreInMemory {
  const std::unique_ptr<server::Store> store = std::move(*server::Store::open(""));
};

class TenantsInMemory : private StoreInMemory, public server::TenantDirectory {
 public:
  TenantsInMemory() : TenantDirectory(*store) {}
};

}  // namespace phub::testing
