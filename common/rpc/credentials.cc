#include "common/rpc/credentials.h"

#include <openssl/pem.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "common/base/whole_file.h"
#include "common/rpc/openssl_owners.h"

namespace phub {
namespace {

using openssl::Bio;
using openssl::bio_of;
using openssl::Certificate;
using openssl::Key;

Status invalid(const std::string& field, const std::string& what) {
  return {Code::kInvalidArgument, "security." + field + ": " + what};
}

// A PEM file of a field.
struct Pem {
  std::string field;
  std::string path;
  std::string text = {};

  static Result<Pem> read(const std::string& field, const std::string& path) {
    const Status readable = check_readable_to_end(path);
    if (!readable.ok()) return readable.with_context("security." + field);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      return errno_status("security." + field + ": cannot read " + path, Code::kInvalidArgument);
    }
    return Pem{field, path, std::string(std::istreambuf_iterator<char>(file), {})};
  }

  // The first certificate in it, which has not expired.
  Result<Certificate> certificate() const {
    Certificate found(PEM_read_bio_X509(bio_of(text).get(), nullptr, nullptr, nullptr));
    if (!found) {
      return invalid(field, path + " has no certificate in PEM; `phubctl pki init` makes one");
    }
    if (X509_cmp_current_time(X509_get0_notAfter(found.get())) < 0) {
      return invalid(field, path + " has expired; `phubctl pki issue` makes another");
    }
    return found;
  }
};

std::int64_t expiry_of(const X509& certificate) {
  tm time{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &time) == 1 ? ::timegm(&time) : 0;
}

// Error: the key is not the certificate's.
Status check_pair(const Pem& certificate, const Pem& key) {
  PHUB_ASSIGN_OR_RETURN(const Certificate own, certificate.certificate());
  const Key secret(PEM_read_bio_PrivateKey(bio_of(key.text).get(), nullptr, nullptr, nullptr));
  if (!secret) return invalid("key", key.path + " has no private key in PEM");
  if (X509_check_private_key(own.get(), secret.get()) != 1) {
    return invalid("key", key.path + " is not the key of " + certificate.path);
  }
  return {};
}

}  // namespace

Result<ServerTls> read_server_tls(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty() || files.ca.empty()) {
    return invalid("ca, certificate, key", "a server needs all three, or none of them");
  }
  PHUB_ASSIGN_OR_RETURN(const Pem certificate, Pem::read("certificate", files.certificate));
  PHUB_ASSIGN_OR_RETURN(const Pem key, Pem::read("key", files.key));
  PHUB_RETURN_IF_ERROR(check_pair(certificate, key));
  PHUB_ASSIGN_OR_RETURN(const Pem ca, Pem::read("ca", files.ca));
  PHUB_ASSIGN_OR_RETURN(const Certificate signer, ca.certificate());
  PHUB_ASSIGN_OR_RETURN(const Certificate own, certificate.certificate());
  return ServerTls{.ca = ca.text,
                   .certificate = certificate.text,
                   .key = key.text,
                   .ca_expires_unix_s = expiry_of(*signer),
                   .certificate_expires_unix_s = expiry_of(*own)};
}

std::shared_ptr<grpc::ServerCredentials> server_credentials() {
  return grpc::InsecureServerCredentials();
}

Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureChannelCredentials();
  if (files.certificate.empty() != files.key.empty()) {
    return invalid("certificate, key", "give both or none of them");
  }
  if (files.ca.empty()) {
    return invalid("ca", "is missing: without it the server cannot be told from another");
  }
  PHUB_ASSIGN_OR_RETURN(const Pem ca, Pem::read("ca", files.ca));
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const Certificate signer, ca.certificate());
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ca.text;
  if (!files.key.empty()) {
    PHUB_ASSIGN_OR_RETURN(const Pem certificate, Pem::read("certificate", files.certificate));
    PHUB_ASSIGN_OR_RETURN(const Pem key, Pem::read("key", files.key));
    PHUB_RETURN_IF_ERROR(check_pair(certificate, key));
    options.pem_cert_chain = certificate.text;
    options.pem_private_key = key.text;
  }
  return grpc::SslCredentials(options);
}

}  // namespace phub
