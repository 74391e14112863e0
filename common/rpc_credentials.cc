#include "common/rpc_credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

namespace phub {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned kReloadSeconds = 1;

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

Status invalid(const std::string& field, const std::string& what) {
  return {Code::kInvalidArgument, "security." + field + ": " + what};
}

Result<std::unique_ptr<std::FILE, Free>> open_file(const std::string& field,
                                                   const std::string& path) {
  std::unique_ptr<std::FILE, Free> file(std::fopen(path.c_str(), "re"));
  if (file) return file;
  return errno_status("security." + field + ": cannot read " + path, Code::kInvalidArgument);
}

Result<std::string> read_text(const std::string& field, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_status("security." + field + ": cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Certificate> read_certificate(const std::string& field, const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const auto file, open_file(field, path));
  Certificate certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
  if (!certificate) {
    return invalid(field, path + " has no certificate in PEM; `phubctl pki init` makes one");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return invalid(field, path + " has expired; `phubctl pki issue` makes another");
  }
  return certificate;
}

Status check_pair(const TlsFiles& files) {
  PHUB_ASSIGN_OR_RETURN(const Certificate own, read_certificate("certificate", files.certificate));
  PHUB_ASSIGN_OR_RETURN(const auto file, open_file("key", files.key));
  const Key key(PEM_read_PrivateKey(file.get(), nullptr, nullptr, nullptr));
  if (!key) return invalid("key", files.key + " has no private key in PEM");
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    return invalid("key", files.key + " is not the key of " + files.certificate);
  }
  return {};
}

std::string subject_part(X509* certificate, int part) {
  std::array<char, 256> text{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), part,
                                               text.data(), static_cast<int>(text.size()));
  return length < 0 ? "" : text.data();
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(
    const TlsFiles& files, bool require_client_certificate) {
  if (files.empty()) return grpc::InsecureServerCredentials();
  if (files.certificate.empty() || files.key.empty() || files.ca.empty()) {
    return invalid("ca, certificate, key", "a server needs all three, or none of them");
  }
  PHUB_RETURN_IF_ERROR(check_pair(files));
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const Certificate ca, read_certificate("ca", files.ca));
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate, files.ca,
                                                       kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (require_client_certificate) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> channel_credentials(const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureChannelCredentials();
  if (files.certificate.empty() != files.key.empty()) {
    return invalid("certificate, key", "give both or none of them");
  }
  if (files.ca.empty()) {
    return invalid("ca", "is missing: without it the server cannot be told from another");
  }
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const Certificate ca, read_certificate("ca", files.ca));
  grpc::SslCredentialsOptions options;
  PHUB_ASSIGN_OR_RETURN(options.pem_root_certs, read_text("ca", files.ca));
  if (!files.key.empty()) {
    PHUB_RETURN_IF_ERROR(check_pair(files));
    PHUB_ASSIGN_OR_RETURN(options.pem_cert_chain, read_text("certificate", files.certificate));
    PHUB_ASSIGN_OR_RETURN(options.pem_private_key, read_text("key", files.key));
  }
  return grpc::SslCredentials(options);
}

std::optional<PeerCertificate> peer_certificate(const grpc::ServerContextBase& context) {
  const auto identity = context.auth_context();
  if (identity == nullptr) return std::nullopt;
  const auto found = identity->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (found.empty()) return std::nullopt;
  const std::unique_ptr<BIO, Free> bio(
      BIO_new_mem_buf(found[0].data(), static_cast<int>(found[0].size())));
  const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return std::nullopt;
  return PeerCertificate{.unit = subject_part(certificate.get(), NID_organizationalUnitName),
                         .name = subject_part(certificate.get(), NID_commonName)};
}

}  // namespace phub
