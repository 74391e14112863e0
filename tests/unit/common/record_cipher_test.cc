// AES-GCM and HKDF against their specifications' vectors, and what a record's number protects from.
#include "common/transport/tcp/record_cipher.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/transport/tcp/stream_keys.h"

namespace phub::transport {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Bytes counting(std::uint8_t first, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(first + i);
  return bytes;
}

RecordKey key_of(const std::string& key, const std::string& iv) {
  RecordKey result;
  std::ranges::copy(from_hex(key), result.key.begin());
  std::ranges::copy(from_hex(iv), result.iv.begin());
  return result;
}

const RecordKey kKey = key_of("feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888");

std::unique_ptr<RecordCipher> sealer(const RecordKey& key = kKey) {
  return std::move(*RecordCipher::create(RecordCipher::Way::kSeal, key));
}
std::unique_ptr<RecordCipher> opener(const RecordKey& key = kKey) {
  return std::move(*RecordCipher::create(RecordCipher::Way::kOpen, key));
}

Bytes sealed_by(RecordCipher& cipher, const Bytes& plain) {
  Bytes sealed(plain.size() + RecordCipher::kTagBytes);
  cipher.seal(std::as_bytes(std::span(plain)), std::as_writable_bytes(std::span(sealed)).data());
  return sealed;
}

// What `sealed` opens to; nothing if it does not verify.
std::optional<Bytes> opened_by(RecordCipher& cipher, Bytes sealed) {
  const auto bytes = std::as_writable_bytes(std::span(sealed));
  const auto data = bytes.first(bytes.size() - RecordCipher::kTagBytes);
  if (!cipher.open(data, data.data() + data.size())) return std::nullopt;
  sealed.resize(data.size());
  return sealed;
}

struct Vector {
  RecordKey key;
  std::string plain;
  std::string sealed;  // ciphertext and tag
};

}  // namespace

// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, which NIST took over.
TEST_CASE("a first record is what GCM's test cases 1 to 3 say") {
  const RecordKey zeros;
  const std::vector<Vector> vectors = {
      {zeros, "", "58e2fccefa7e3061367f1d57a4e7455a"},
      {zeros, "00000000000000000000000000000000",
       "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
      {kKey,
       "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
       "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
       "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
       "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
       "4d5c2af327cd64a62cf35abd2ba6fab4"}};
  for (const Vector& vector : vectors) {
    CHECK(sealed_by(*sealer(vector.key), from_hex(vector.plain)) == from_hex(vector.sealed));
    CHECK(opened_by(*opener(vector.key), from_hex(vector.sealed)) == from_hex(vector.plain));
  }
}

TEST_CASE("HKDF-SHA256 is what RFC 5869's test cases say") {
  const Bytes key(22, 0x0b);
  CHECK(hkdf_sha256(key, counting(0, 13), counting(0xf0, 10), 42) ==
        from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
                 "34007208d5b887185865"));
  CHECK(hkdf_sha256(counting(0, 80), counting(0x60, 80), counting(0xb0, 80), 82) ==
        from_hex("b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
                 "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
                 "cc30c58179ec3e87c14c01d5c1f3434f1d87"));
  CHECK(hkdf_sha256(key, {}, {}, 42) ==
        from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
                 "9d201395faa4b61a96c8"));
}

TEST_CASE("records open in their order, whatever their lengths") {
  const auto seals = sealer();
  const auto opens = opener();
  for (const std::size_t bytes : {0U, 1U, 15U, 16U, 17U, 4096U, 32768U}) {
    const Bytes plain = counting(static_cast<std::uint8_t>(bytes), bytes);
    CHECK(opened_by(*opens, sealed_by(*seals, plain)) == plain);
  }
}

TEST_CASE("the same bytes are never sealed the same way twice") {
  const auto seals = sealer();
  std::set<Bytes> seen;
  for (int i = 0; i < 1000; ++i) CHECK(seen.insert(sealed_by(*seals, Bytes(16))).second);
}

TEST_CASE("a record of which any bit was changed does not open") {
  const Bytes plain = counting(3, 40);
  const Bytes sealed = sealed_by(*sealer(), plain);
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    Bytes changed = sealed;
    changed[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    CHECK_FALSE(opened_by(*opener(), changed));
  }
  Bytes shorter = sealed;
  shorter.pop_back();
  CHECK_FALSE(opened_by(*opener(), shorter));
  CHECK(opened_by(*opener(), sealed) == plain);
}

TEST_CASE("a record that is repeated, left out or of the other direction does not open") {
  const auto seals = sealer();
  const Bytes first = sealed_by(*seals, counting(0, 32));
  const Bytes second = sealed_by(*seals, counting(0, 32));
  const auto repeated = opener();
  CHECK(opened_by(*repeated, first));
  CHECK_FALSE(opened_by(*repeated, first));
  CHECK_FALSE(opened_by(*opener(), second));
  RecordKey other = kKey;
  other.iv[0] ^= 1;
  CHECK_FALSE(opened_by(*opener(other), first));
}

TEST_CASE("both ends replace their keys after so many records") {
  const auto seals = sealer();
  const auto opens = opener();
  const Bytes record(1);
  while (seals->records() < 2 * RecordCipher::kRecordsPerKey) {
    const Bytes sealed = sealed_by(*seals, record);
    REQUIRE(opened_by(*opens, sealed));
  }
  const Bytes plain = counting(9, 100);
  CHECK(opened_by(*opens, sealed_by(*seals, plain)) == plain);
}

// Noise's REKEY, by hand: the key stream's first block under the nonce of the largest number.
TEST_CASE("the next key is what the old one makes of zeros, and numbers go on") {
  const auto seals = sealer();
  const Bytes plain = counting(5, 64);
  const auto opens_as_number = [&](std::uint64_t number, const Bytes& record) {
    RecordKey key = kKey;
    for (std::size_t i = 0; i < 8; ++i) key.iv[11 - i] ^= (number >> (8 * i)) & 0xFFU;
    return opened_by(*opener(key), record) == plain;
  };
  sealed_by(*seals, {});
  CHECK(opens_as_number(1, sealed_by(*seals, plain)));
  while (seals->records() + 1 < RecordCipher::kRecordsPerKey) sealed_by(*seals, {});
  CHECK(opens_as_number(RecordCipher::kRecordsPerKey - 1, sealed_by(*seals, plain)));
  const Bytes sealed = sealed_by(*seals, plain);
  CHECK_FALSE(opens_as_number(RecordCipher::kRecordsPerKey, sealed));
  RecordKey last = kKey;
  for (std::size_t i = 4; i < last.iv.size(); ++i) last.iv[i] ^= 0xFF;
  const Bytes zeros = sealed_by(*sealer(last), Bytes(16));
  RecordKey next = kKey;
  std::copy_n(zeros.begin(), next.key.size(), next.key.begin());
  static_assert(RecordCipher::kRecordsPerKey == 0x10'00'00);
  next.iv[next.iv.size() - 3] ^= 0x10;  // the number of the record
  CHECK(opened_by(*opener(next), sealed) == plain);
}

// By Python's hmac and struct: the salt is both nonces, the info is label, Hello and Challenge.
TEST_CASE("a stream's keys are HKDF-SHA256 of the secret and the handshake") {
  std::array<std::uint8_t, 32> secret = {};
  Hello hello{.job_id = 0x0102030405060708,
              .epoch = 3,
              .worker = 4,
              .core = 5,
              .channel_capacity = 6,
              .memory_bytes = 7,
              .encrypted = 1};
  Challenge challenge;
  std::ranges::copy(counting(0, 32), secret.begin());
  std::ranges::copy(counting(0x40, 16), hello.nonce.begin());
  std::ranges::copy(counting(0x60, 16), challenge.nonce.begin());
  const StreamKeys keys = stream_keys(secret, hello, challenge);
  const auto is = [](const RecordKey& key, const std::string& right, const std::string& iv) {
    return std::ranges::equal(key.key, from_hex(right)) && std::ranges::equal(key.iv, from_hex(iv));
  };
  CHECK(is(keys.worker, "4880c706aa7795e6fb70e0c22d16ee53", "7fc92c059ca987a9c0fdbc9c"));
  CHECK(is(keys.server, "f94f4c8dd73fa0bcd4c8c251ceb2734a", "f02e1ee1ad9ebddd0cb730ad"));
}

TEST_CASE("streams differ in every key when anything of their handshakes does") {
  std::array<std::uint8_t, 32> secret = {1};
  Hello hello{.job_id = 1, .epoch = 2, .worker = 3, .core = 4, .encrypted = 1};
  Challenge challenge;
  std::set<Bytes> seen;
  const auto is_new = [&] {
    const StreamKeys keys = stream_keys(secret, hello, challenge);
    bool all = true;
    for (const RecordKey* key : {&keys.worker, &keys.server}) {
      all = seen.insert(Bytes(key->key.begin(), key->key.end())).second && all;
      all = seen.insert(Bytes(key->iv.begin(), key->iv.end())).second && all;
    }
    return all;
  };
  CHECK(is_new());
  CHECK_FALSE(is_new());  // both ends derive the same
  hello.nonce[15] = 1;
  CHECK(is_new());
  challenge.nonce[0] = 1;
  CHECK(is_new());
  secret[31] = 1;
  CHECK(is_new());
  for (auto* field : {&hello.epoch, &hello.worker, &hello.core, &hello.encrypted}) {
    *field += 1;
    CHECK(is_new());
  }
  ++hello.job_id;
  CHECK(is_new());
}

}  // namespace phub::transport
