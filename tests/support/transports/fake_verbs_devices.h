// libibverbs as far as listing devices needs it: linked in place of the library, it shows the
// devices that a test sets and counts what is open.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/transport/verbs/device/device.h"

namespace phub::tests {

struct FakeVerbs {
  std::vector<transport::verbs::DeviceInfo> devices;  // answered for every query
  int list_error = 0;                                 // errno of ibv_get_device_list
  std::string does_not_open;                          // name of a device
  std::string failing_call;                           // "ibv_query_device", ...
  bool is_iwarp = false;
  int open_devices = 0;  // how many are open now
  int open_lists = 0;
};

// The one that the calls go to; a test sets it afresh.
FakeVerbs& fake_verbs();

}  // namespace phub::tests
