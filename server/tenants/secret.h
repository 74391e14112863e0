// Random secrets as text, and the hashes that are kept of them.
//
// A secret is 256 random bits, so guessing is hopeless and SHA-256 is hash enough: slow hashes are
// for what people choose. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::server {

using Digest = std::array<std::uint8_t, 32>;  // SHA-256

// 32 random bytes in base64url without padding: 43 characters.
Result<std::string> random_secret();

Digest digest_of(std::string_view secret);

// Takes as long whatever differs.
bool is_same(const Digest& a, const Digest& b);

}  // namespace phub::server
