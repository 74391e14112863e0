// A data connection's proofs: what they cover, byte by byte, and how they are compared.
#include "common/transport/handshake.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <string>

namespace phub::transport {
namespace {

struct Case {
  std::array<std::uint8_t, 32> secret = {};
  Hello hello = {.job_id = 0x0102030405060708,
                 .epoch = 3,
                 .worker = 4,
                 .core = 5,
                 .channel_capacity = 6,
                 .memory_bytes = 7,
                 .kind = Kind::kShm,
                 .encrypted = 1};
  Challenge challenge;

  Case() {
    std::iota(secret.begin(), secret.end(), std::uint8_t{0});
    std::iota(hello.nonce.begin(), hello.nonce.end(), std::uint8_t{0x40});
    std::iota(challenge.nonce.begin(), challenge.nonce.end(), std::uint8_t{0x60});
  }
  Digest proof(HandshakeRole role) const { return proof_of(role, secret, hello, challenge); }
};

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

// Calls `check` once for each byte of `object`, which has that byte changed meanwhile.
template <typename Object, typename Check>
void with_each_byte_changed(Object& object, const Check& check) {
  const auto bytes = std::as_writable_bytes(std::span(&object, 1));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    INFO("byte " << i);
    bytes[i] ^= std::byte{1};
    check();
    bytes[i] ^= std::byte{1};
  }
}

}  // namespace

// By Python's hmac and struct.
TEST_CASE("a proof is the HMAC-SHA256 of role, Hello and Challenge, a mark of no challenge") {
  const Case c;
  CHECK(hex(c.proof(HandshakeRole::kWorker)) ==
        "20df2f784aea1004c30636b4dd32031a8b3ed450eba378bca71db2e0b6c34159");
  CHECK(hex(mark_of(c.secret, c.hello).digest) ==
        "a9f197b83d45948c76a2c521431220a4b144d02727f8806803387c1b2da6da02");
  CHECK(hex(c.proof(HandshakeRole::kServer)) ==
        "f8f8c2629185a58002e07932ac6014527165d56691aebc5f357cec562a4f598a");
}

TEST_CASE("no byte of secret, Hello or Challenge can change without changing both proofs") {
  Case c;
  const Case original;
  const auto differs = [&] {
    CHECK(c.proof(HandshakeRole::kWorker) != original.proof(HandshakeRole::kWorker));
    CHECK(c.proof(HandshakeRole::kServer) != original.proof(HandshakeRole::kServer));
  };
  with_each_byte_changed(c.secret, differs);
  with_each_byte_changed(c.hello, differs);
  with_each_byte_changed(c.challenge, differs);
  CHECK(c.proof(HandshakeRole::kWorker) == original.proof(HandshakeRole::kWorker));
}

TEST_CASE("proofs are equal when all of their bytes are") {
  const Digest right = Case().proof(HandshakeRole::kWorker);
  Digest shown = right;
  CHECK(equal_constant_time(right, shown));
  with_each_byte_changed(shown, [&] { CHECK_FALSE(equal_constant_time(right, shown)); });
}

TEST_CASE("no two nonces are alike, and every byte of them is random") {
  std::set<Nonce> seen;
  Nonce ever = {};
  for (int i = 0; i < 100; ++i) {
    const Nonce nonce = random_nonce();
    CHECK(seen.insert(nonce).second);
    for (std::size_t byte = 0; byte < nonce.size(); ++byte) ever[byte] |= nonce[byte];
  }
  for (const std::uint8_t byte : ever) CHECK(byte != 0);
}

}  // namespace phub::transport
