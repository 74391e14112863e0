// phubctl pki: a small certificate authority for a lab, as folders of files.
//
//   DIR/ca        ca.pem, cert.pem, key.pem   signs; keep it off the servers
//   DIR/server    ca.pem, cert.pem, key.pem   for phub-server --credentials
//   DIR/admin, observer, worker               for phubctl and phub-worker --credentials
//
// One thread; nothing is overwritten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub::phubctl {

struct PkiOptions {
  std::string folder;
  std::string name = "worker";          // issue: CN, and the folder's name
  std::string role = "worker";          // issue: admin, observer, worker, server
  std::vector<std::string> hosts = {};  // names and addresses of the server
  std::uint32_t days = 365;             // of what the CA signs
};

// Makes all of them and prints what to do next. Errors: kAlreadyExists, kInvalidArgument (--host).
Status pki_init(const PkiOptions& options, bool as_json);

// One more folder, DIR/NAME, signed by DIR/ca.
Status pki_issue(const PkiOptions& options, bool as_json);

}  // namespace phub::phubctl
