// The keys of one encrypted tcp stream, from the handshake that opened it.
//
//   HKDF-SHA256 (RFC 5869), salt: worker's nonce | server's nonce, key: the join's secret,
//   info: "phub tcp records 1" | Hello | Challenge
//
// Hello names the job, epoch, worker and core, and says that the stream is encrypted. Both nonces
// are fresh in every handshake, so no two streams have a key in common. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/transport/handshake.h"
#include "common/transport/tcp/record_cipher.h"

namespace phub::transport {

// Each direction's, by who sends.
struct StreamKeys {
  RecordKey worker;
  RecordKey server;
};

StreamKeys stream_keys(std::span<const std::uint8_t, 32> secret, const Hello& hello,
                       const Challenge& challenge);

// `bytes` of output key material. Parameters may be empty.
std::vector<std::uint8_t> hkdf_sha256(std::span<const std::uint8_t> key,
                                      std::span<const std::uint8_t> salt,
                                      std::span<const std::uint8_t> info, std::size_t bytes);

}  // namespace phub::transport
