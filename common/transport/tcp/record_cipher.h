// One direction of an encrypted stream: AES-128-GCM over records, in the order of a counter.
//
// A record's nonce is the direction's IV with the record's number (64 bits, big-endian) xored into
// its last eight bytes, as in TLS 1.3 (RFC 8446, 5.3). Neither end sends the number: a record that
// was left out, repeated or moved opens under the wrong nonce, and its tag does not verify.
//
// After kRecordsPerKey records both ends replace the key by what the old one makes of zeros under
// the nonce of number 2^64 - 1 (the Noise framework's REKEY). So one key seals at most 32 GiB, 2^31
// blocks, where its advantage over a random function is below 2^-66; and a key that leaks opens
// nothing that was sent before it. The numbers go on; no nonce comes twice under one key.
//
// Belongs to one thread. After create nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"

struct evp_cipher_ctx_st;

namespace phub::transport {

struct RecordKey {
  std::array<std::uint8_t, 16> key = {};
  std::array<std::uint8_t, 12> iv = {};
  ~RecordKey();  // leaves nothing in memory
};

class RecordCipher {
 public:
  enum class Way { kSeal, kOpen };

  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kMaxRecordBytes = 32 * 1024;
  static constexpr std::uint64_t kRecordsPerKey = 1U << 20;

  // Error: kInternal, OpenSSL has no AES-128-GCM.
  static Result<std::unique_ptr<RecordCipher>> create(Way way, const RecordKey& key);

  // Writes the ciphertext and its tag, plain.size() + kTagBytes bytes, to `sealed`.
  // REQUIRES: kSeal; at most kMaxRecordBytes, which do not overlap `sealed`.
  void seal(std::span<const std::byte> plain, std::byte* sealed);

  // Decrypts in place. False: it is not the next record that the other end sealed; then `data` is
  // worth nothing. REQUIRES: kOpen; kTagBytes at `tag`.
  bool open(std::span<std::byte> data, const std::byte* tag);

  std::uint64_t records() const { return records_; }  // sealed or opened

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };

  RecordCipher(std::unique_ptr<evp_cipher_ctx_st, Free> context, const RecordKey& key)
      : context_(std::move(context)), iv_(key.iv) {}
  void begin();
  void set_nonce(std::uint64_t record);
  void replace_key();

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  std::array<std::uint8_t, 12> iv_;
  std::uint64_t records_ = 0;
};

}  // namespace phub::transport
