// X.509 certificates on ECDSA P-256: a CA that signs, and what it signs.
//
// Values that own OpenSSL's objects; one thread. OpenSSL's X509 appears here only.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace phub::phubctl {

struct Subject {
  std::string name;                     // CN
  std::string unit = {};                // OU: the role; empty for a CA
  std::vector<std::string> hosts = {};  // names and IP addresses that it is valid for
  std::uint32_t days = 365;
};

class SignedKey {
 public:
  // Signed by itself. Errors: kInternal with OpenSSL's words.
  static Result<SignedKey> make_ca(const Subject& subject);
  // REQUIRES: this is a CA. Errors: kInvalidArgument for a host that cannot be in a certificate.
  Result<SignedKey> issue(const Subject& subject) const;

  // PEM files. Errors name the file.
  static Result<SignedKey> load(const std::string& certificate, const std::string& key);
  Status save_certificate(const std::string& path) const;  // mode 0644
  Status save_key(const std::string& path) const;          // mode 0600

 private:
  struct Free {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  Status make_key_and_certificate(const Subject& subject);
  // Gives the certificate what it lacks: extensions (of a kind of OpenSSL's, those that are not
  // empty), and the issuer's name and signature.
  Status sign(const SignedKey& issuer,
              std::initializer_list<std::pair<int, std::string>> extensions);

  std::unique_ptr<X509, Free> certificate_;
  std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace phub::phubctl
