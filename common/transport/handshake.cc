#include "common/transport/handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <string_view>

#include "common/base/check.h"

namespace phub::transport {

Nonce random_nonce() {
  Nonce nonce = {};
  PHUB_CHECK(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1,
             "the system's random generator failed");
  return nonce;
}

Digest proof_of(Role role, std::span<const std::uint8_t, 32> secret, const Hello& hello,
                const Challenge& challenge) {
  const std::string_view label = role == Role::kWorker ? "phub worker" : "phub server";
  std::array<std::uint8_t, 11 + sizeof(Hello) + sizeof(Challenge)> message = {};
  std::memcpy(message.data(), label.data(), label.size());
  std::memcpy(message.data() + label.size(), &hello, sizeof(hello));
  std::memcpy(message.data() + label.size() + sizeof(hello), &challenge, sizeof(challenge));
  Digest digest = {};
  unsigned length = 0;
  const auto* result = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                            message.data(), message.size(), digest.data(), &length);
  PHUB_CHECK(result != nullptr && length == digest.size(), "HMAC-SHA256 failed");
  return digest;
}

bool equal_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace phub::transport
