#include "common/transport/tcp/stream_keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "common/base/check.h"

namespace phub::transport {
namespace {

constexpr std::string_view kLabel = "phub tcp records 1";

// OpenSSL's parameters are not const-correct, HKDF only reads them; nor may an empty one be null.
OSSL_PARAM octets(const char* name, std::span<const std::uint8_t> bytes) {
  static std::uint8_t nothing = 0;
  auto* data = const_cast<std::uint8_t*>(bytes.data());  // NOLINT(*-const-cast)
  return OSSL_PARAM_construct_octet_string(name, bytes.empty() ? &nothing : data, bytes.size());
}

}  // namespace

std::vector<std::uint8_t> hkdf_sha256(std::span<const std::uint8_t> key,
                                      std::span<const std::uint8_t> salt,
                                      std::span<const std::uint8_t> info, std::size_t bytes) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), EVP_KDF_free);
  PHUB_CHECK(kdf != nullptr, "OpenSSL has no HKDF");
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  std::array<char, 7> digest = {"SHA256"};
  const std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      octets(OSSL_KDF_PARAM_KEY, key), octets(OSSL_KDF_PARAM_SALT, salt),
      octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::vector<std::uint8_t> result(bytes);
  PHUB_CHECK(context != nullptr && EVP_KDF_derive(context.get(), result.data(), result.size(),
                                                  parameters.data()) == 1,
             "HKDF-SHA256 failed");
  return result;
}

StreamKeys stream_keys(std::span<const std::uint8_t, 32> secret, const Hello& hello,
                       const Challenge& challenge) {
  std::array<std::uint8_t, 2 * sizeof(Nonce)> salt = {};
  std::memcpy(salt.data(), hello.nonce.data(), sizeof(Nonce));
  std::memcpy(salt.data() + sizeof(Nonce), challenge.nonce.data(), sizeof(Nonce));
  std::array<std::uint8_t, kLabel.size() + sizeof(Hello) + sizeof(Challenge)> info = {};
  std::memcpy(info.data(), kLabel.data(), kLabel.size());
  std::memcpy(info.data() + kLabel.size(), &hello, sizeof(hello));
  std::memcpy(info.data() + kLabel.size() + sizeof(hello), &challenge, sizeof(challenge));
  StreamKeys keys;
  constexpr std::size_t kBytes = 2 * (sizeof(keys.worker.key) + sizeof(keys.worker.iv));
  std::vector<std::uint8_t> material = hkdf_sha256(secret, salt, info, kBytes);
  const std::uint8_t* next = material.data();
  const auto take = [&next](auto& part) {
    std::copy_n(next, part.size(), part.begin());
    next += part.size();
  };
  take(keys.worker.key);
  take(keys.worker.iv);
  take(keys.server.key);
  take(keys.server.iv);
  OPENSSL_cleanse(material.data(), material.size());
  return keys;
}

}  // namespace phub::transport
