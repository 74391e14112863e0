// How long a file on a server is waited for, and how often it is asked.
#pragma once

#include <chrono>
#include <cstdint>

namespace phub::data {

struct HttpOptions {
  std::chrono::milliseconds connect{10'000};  // for a connection, TLS included
  // A transfer that is slower than kSlowestBytesPerSecond for as long ends.
  std::chrono::milliseconds stall{30'000};
  std::uint32_t tries = 5;
  std::chrono::milliseconds first_pause{200};  // doubled after each try
  // What the server may ask for at most, in place of a shorter pause.
  std::chrono::milliseconds retry_after_max{10'000};
  // In use at a time for one file, or for the files of one set. Each is two where the server
  // redirects to another one.
  std::uint32_t connections = 64;
};

inline constexpr std::uint64_t kSlowestBytesPerSecond = 1000;

}  // namespace phub::data
