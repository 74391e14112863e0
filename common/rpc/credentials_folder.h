// Credentials as files: a folder with ca.pem, cert.pem, key.pem, token and nonce, any of which may
// be missing, and secrets in the first line of a file.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"

namespace phub {

// Paths; empty: there is none.
struct CredentialFiles {
  TlsFiles tls = {};
  std::string token = {};
  std::string nonce = {};
};

// Errors: kInvalidArgument names the folder, and what it should have.
Result<CredentialFiles> find_credentials(const std::string& folder);

// The lines of a file that are not empty, without blanks at their ends. Errors name the file.
Result<std::vector<std::string>> secret_lines(const std::string& path);

// Whether `host` is this machine without a look-up: "localhost", 127.x.x.x, "::1".
bool is_loopback(std::string_view host);

// Secrets do not go to other hosts in clear. Errors: kInvalidArgument with the cure.
Status check_secrecy(bool has_secret, bool is_plaintext, std::string_view host);

}  // namespace phub
