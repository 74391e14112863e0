// What libibverbs's numbers of a port mean.
//
// Pure functions; any thread.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

namespace phub::transport::verbs {

// "active", "down", "initialising", "armed", "deferring", "no change".
inline const char* word_of(ibv_port_state state) {
  static constexpr std::array kWords = {"no change", "down",   "initialising",
                                        "armed",     "active", "deferring"};
  return kWords[state <= IBV_PORT_ACTIVE_DEFER ? state : IBV_PORT_NOP];
}

// 256 to 4096; 0: none.
inline std::uint32_t bytes_of(ibv_mtu mtu) {
  return mtu == 0 ? 0 : 128U << static_cast<unsigned>(mtu);
}

}  // namespace phub::transport::verbs
