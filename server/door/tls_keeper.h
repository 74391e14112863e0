// A server's certificate, key and CA, watched: new connections use what fits together.
//
// They change only when the certificate on disk is that of the key on disk and is valid: an
// operator may replace the two files in any order. What a new CA or a revocation changes holds for
// connections from then on; ControlServiceOptions::connection_age bounds how long the others last.
//
// Owned by the ControlService. Has a thread of its own that looks every second; look() may be
// called by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"
#include "server/door/pump/tls_context.h"

namespace phub::server {

struct CertificateExpiry {
  std::string what;  // "certificate", "ca"
  std::int64_t unix_s = 0;
};

class TlsKeeper {
 public:
  // `crl_folder`: revocations, as `openssl rehash` names them; empty: none. Logs a warning when
  // others than the owner may read the key. Errors: those of read_server_tls; kInvalidArgument, a
  // folder that cannot be read or has revocations under other names.
  static Result<std::unique_ptr<TlsKeeper>> create(const TlsFiles& files,
                                                   bool require_client_certificates,
                                                   const std::string& crl_folder);

  virtual ~TlsKeeper() = default;
  TlsKeeper() = default;
  TlsKeeper(const TlsKeeper&) = delete;
  TlsKeeper& operator=(const TlsKeeper&) = delete;

  // Takes the files over if they have changed and fit, and logs which. Error: why they were left
  // where they are; what was there before stays in force.
  virtual Status look() = 0;

  // For the next connection. Any thread.
  virtual TlsContext context() const = 0;
  virtual std::vector<CertificateExpiry> expiries() const = 0;
};

}  // namespace phub::server
