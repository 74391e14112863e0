// Which PEM files an end of a TLS connection uses. All empty: plaintext.
//
// Plain values; any thread.
#pragma once

#include <string>

namespace phub {

struct TlsFiles {
  std::string ca = {};           // who signs the other end's certificate
  std::string certificate = {};  // our own, and its key
  std::string key = {};

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

}  // namespace phub
