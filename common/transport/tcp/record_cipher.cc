#include "common/transport/tcp/record_cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "common/base/check.h"

namespace phub::transport {

RecordKey::~RecordKey() { OPENSSL_cleanse(this, sizeof(*this)); }

namespace {

constexpr std::uint64_t kRekeyNumber = ~0ULL;  // no record has it

const unsigned char* in(const std::byte* data) {
  return reinterpret_cast<const unsigned char*>(data);
}
unsigned char* out(std::byte* data) { return reinterpret_cast<unsigned char*>(data); }

void update(EVP_CIPHER_CTX* context, std::span<const std::byte> from, std::byte* to) {
  int written = 0;
  const int bytes = static_cast<int>(from.size());
  PHUB_CHECK(
      EVP_CipherUpdate(context, out(to), &written, in(from.data()), bytes) == 1 && written == bytes,
      "AES-GCM failed");
}

}  // namespace

void RecordCipher::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

Result<std::unique_ptr<RecordCipher>> RecordCipher::create(Way way, const RecordKey& key) {
  std::unique_ptr<EVP_CIPHER_CTX, Free> context(EVP_CIPHER_CTX_new());
  if (!context || EVP_CipherInit_ex(context.get(), EVP_aes_128_gcm(), nullptr, key.key.data(),
                                    key.iv.data(), way == Way::kSeal ? 1 : 0) != 1) {
    return Status(Code::kInternal, "OpenSSL has no AES-128-GCM (is it in FIPS mode without it?)");
  }
  return std::unique_ptr<RecordCipher>(new RecordCipher(std::move(context), key));
}

void RecordCipher::set_nonce(std::uint64_t record) {
  std::array<std::uint8_t, 12> nonce = iv_;
  for (std::size_t i = 0; i < sizeof(record); ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<std::uint8_t>(record >> (8 * i));
  }
  PHUB_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1,
             "AES-GCM refused a nonce");
}

void RecordCipher::replace_key() {
  set_nonce(kRekeyNumber);
  std::array<std::byte, 16> next = {};
  update(context_.get(), next, next.data());  // the key stream, whichever way this one is
  PHUB_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, in(next.data()), nullptr, -1) == 1,
             "AES-GCM refused a key");
  OPENSSL_cleanse(next.data(), next.size());
}

void RecordCipher::begin() {
  if (records_ != 0 && records_ % kRecordsPerKey == 0) replace_key();
  set_nonce(records_++);
}

void RecordCipher::seal(std::span<const std::byte> plain, std::byte* sealed) {
  begin();
  if (!plain.empty()) update(context_.get(), plain, sealed);
  std::byte* const tag = sealed + plain.size();
  int rest = 0;
  PHUB_CHECK(EVP_CipherFinal_ex(context_.get(), out(tag), &rest) == 1 &&
                 EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1,
             "AES-GCM made no tag");
}

bool RecordCipher::open(std::span<std::byte> data, const std::byte* tag) {
  begin();
  if (!data.empty()) update(context_.get(), data, data.data());
  // OpenSSL only reads the tag.
  auto* expected = const_cast<std::byte*>(tag);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  PHUB_CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected) == 1,
             "AES-GCM took no tag");
  std::array<std::byte, kTagBytes> nothing;  // NOLINT(*-member-init): GCM has no rest
  int rest = 0;
  return EVP_CipherFinal_ex(context_.get(), out(nothing.data()), &rest) == 1;
}

}  // namespace phub::transport
