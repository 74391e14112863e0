#include "common/transport/handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <string_view>

#include "common/base/check.h"

namespace phub::transport {

namespace {

constexpr std::size_t kLabelSize = 11;

std::string_view label_of(HandshakeRole role) {
  switch (role) {
    case HandshakeRole::kWorker:
      return "phub worker";
    case HandshakeRole::kServer:
      return "phub server";
    case HandshakeRole::kCaller:
      break;
  }
  return "phub caller";
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce = {};
  PHUB_CHECK(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1,
             "the system's random generator failed");
  return nonce;
}

Digest proof_of(HandshakeRole role, std::span<const std::uint8_t, 32> secret, const Hello& hello,
                const Challenge& challenge) {
  const std::string_view label = label_of(role);
  std::array<std::uint8_t, kLabelSize + sizeof(Hello) + sizeof(Challenge)> message = {};
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

Mark mark_of(std::span<const std::uint8_t, 32> secret, const Hello& hello) {
  return {proof_of(HandshakeRole::kCaller, secret, hello, Challenge{})};
}

bool equal_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace phub::transport
