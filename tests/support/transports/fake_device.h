// The fake adapter, opened, and a test that leaves nothing of it behind.
#pragma once

#include <memory>

#include "common/transport/verbs/open_device.h"
#include "tests/support/transports/fake_verbs.h"

namespace phub::transport {

inline std::shared_ptr<const verbs::OpenDevice> device() {
  return *verbs::open_device("fake0", 1, 0);
}

struct Clean {  // every test starts and ends with nothing
  Clean() { fake_verbs::reset(); }
  ~Clean() { fake_verbs::reset(); }
  Clean(const Clean&) = delete;
  Clean& operator=(const Clean&) = delete;
};

}  // namespace phub::transport
