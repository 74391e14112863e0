#include "server/tenants/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>

#include "common/base/check.h"

namespace phub::server {

Result<std::string> random_secret() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Status(Code::kInternal, "the system gives no random bytes for a secret");
  }
  std::array<unsigned char, 48> text{};  // 44 characters, one of them padding, and a zero
  const int length = EVP_EncodeBlock(text.data(), bytes.data(), static_cast<int>(bytes.size()));
  PHUB_CHECK(length == 44, "base64 of 32 bytes");
  std::string secret(text.begin(), text.begin() + 43);
  std::replace(secret.begin(), secret.end(), '+', '-');
  std::replace(secret.begin(), secret.end(), '/', '_');
  return secret;
}

Digest digest_of(std::string_view secret) {
  Digest digest{};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(secret.data());
  SHA256(bytes, secret.size(), digest.data());
  return digest;
}

bool is_same(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace phub::server
