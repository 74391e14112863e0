// How a data connection proves who it is: a challenge and two proofs over HMAC-SHA256.
//
//   worker -> server  Hello       who I say I am, and my nonce
//                     Mark        HMAC(secret, "phub caller" | Hello | zeros)
//   server -> worker  Challenge   the server's nonce
//   worker -> server  Proof       HMAC(secret, "phub worker" | Hello | Challenge)
//   server -> worker  Verdict     a code, and HMAC(secret, "phub server" | Hello | Challenge)
//
// For verbs the worker's verbs::Introduction follows its proof, and the server's follows a welcome.
//
// The mark tells a server whose door is crowded that this is a member, before it has spent a word
// on it. Who recorded one can send it again, so it opens nothing: the proof does.
//
// Nothing about encryption is negotiated here. The server's configuration decides, the worker knows
// it from the rendezvous, and Hello, which both proofs cover, says what the worker will do; a
// server that does otherwise refuses it. Keys: tcp/stream_keys.h.
//
// The secret itself never travels here; it was issued to (job, epoch, worker) by the rendezvous.
// Pure functions and fixed layouts; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace phub::transport {

using Nonce = std::array<std::uint8_t, 16>;
using Digest = std::array<std::uint8_t, 32>;

inline constexpr std::uint32_t kHelloMagic = 0x48424850;  // "PHBH"
inline constexpr std::uint32_t kProtocolVersion = 3;

enum class Kind : std::uint32_t { kTcp = 0, kShm = 1, kVerbs = 2 };

struct Hello {
  std::uint32_t magic = kHelloMagic;
  std::uint32_t version = kProtocolVersion;
  std::uint64_t job_id = 0;
  std::uint32_t epoch = 0;
  std::uint32_t worker = 0;
  std::uint32_t core = 0;
  std::uint32_t channel_capacity = 0;  // shm: notices per ring; tcp: which of the worker's streams
  std::uint64_t memory_bytes = 0;      // shm: size of the worker's memory; tcp: 0
  Nonce nonce = {};
  Kind kind = Kind::kTcp;
  std::uint32_t encrypted =
      0;  // tcp: 1 when what follows the handshake is sealed_stream.h's records
};
static_assert(sizeof(Hello) == 64, "Hello is a wire format");

struct Mark {
  Digest digest = {};
};

struct Challenge {
  Nonce nonce = {};
};

struct Proof {
  Digest digest = {};
};

enum class VerdictCode : std::uint32_t {
  kWelcome = 0,
  kRefused = 1,  // with a proof: the secret has expired; without: no such member or secret
  kFull = 2,
  kNotEncrypted = 3,  // Hello said that the stream is plain: here they are all encrypted
  kEncrypted = 4,     // the reverse
};

struct Verdict {
  VerdictCode code = VerdictCode::kRefused;
  std::uint32_t reserved = 0;
  std::uint64_t memory_bytes = 0;  // shm: size of the parameters that the server shares
  Digest digest = {};
};
static_assert(sizeof(Verdict) == 48, "Verdict is a wire format");

enum class HandshakeRole { kWorker, kServer, kCaller };

Nonce random_nonce();
Digest proof_of(HandshakeRole role, std::span<const std::uint8_t, 32> secret, const Hello& hello,
                const Challenge& challenge);
Mark mark_of(std::span<const std::uint8_t, 32> secret, const Hello& hello);
bool equal_constant_time(const Digest& a, const Digest& b);

}  // namespace phub::transport
