// What libibverbs's numbers of a port mean.
//
// Pure functions; any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace phub::transport::verbs {

// "active", "down", "initialising", "armed", "deferring", "no change".
inline const char* word_of(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE_DEFER:
      return "deferring";
    case IBV_PORT_NOP:
      break;
  }
  return "no change";
}

// 256 to 4096; 0: none.
inline std::uint32_t bytes_of(ibv_mtu mtu) {
  return mtu == 0 ? 0 : 128U << static_cast<unsigned>(mtu);
}

}  // namespace phub::transport::verbs
