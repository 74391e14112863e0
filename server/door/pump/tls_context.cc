#include "server/door/pump/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <string_view>

#include "common/rpc/credentials.h"
#include "common/rpc/openssl_owners.h"

namespace phub::server {
namespace {

using openssl::Bio;
using openssl::bio_of;
using openssl::Certificate;
using openssl::Key;

// As gRPC's: forward secrecy and authenticated encryption.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr long kChainBytesMax = 32 * 1024;  // a stranger's, in memory until it is verified
constexpr std::string_view kHttp2 = "\x02h2";

Status refused(const char* field) {
  return {Code::kInvalidArgument,
          fmt::format("security.{}: OpenSSL refuses it: {}", field, tls_errors())};
}

int choose_http2(SSL*, const unsigned char** chosen, unsigned char* length,
                 const unsigned char* offered, unsigned int offered_length, void*) {
  const std::string_view offers(reinterpret_cast<const char*>(offered), offered_length);
  for (std::size_t at = 0; at < offers.size();
       at += std::size_t{1} + static_cast<unsigned char>(offers[at])) {
    if (offers.substr(at, kHttp2.size()) != kHttp2) continue;
    *chosen = offered + at + 1;
    *length = static_cast<unsigned char>(kHttp2.size() - 1);
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// A CA without a list of revocations has revoked nothing.
int allow_missing_list(int is_good, X509_STORE_CTX* store) {
  if (is_good != 0 || X509_STORE_CTX_get_error(store) != X509_V_ERR_UNABLE_TO_GET_CRL) {
    return is_good;
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);  // or the connection keeps it as its result
  return 1;
}

// The certificate, and those behind it that lead to the CA.
Status use_chain(SSL_CTX* context, const std::string& pem) {
  const Bio bio = bio_of(pem);
  const Certificate own(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return refused("certificate");
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, next) == 1) continue;
    X509_free(next);
    return refused("certificate");
  }
  ERR_clear_error();  // the end of the text is one
  return {};
}

Status trust(SSL_CTX* context, const std::string& pem) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  const Bio bio = bio_of(pem);
  bool has_one = false;
  while (const Certificate ca{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    // Clients that have several certificates are told which is wanted.
    if (X509_STORE_add_cert(store, ca.get()) != 1 ||
        SSL_CTX_add_client_CA(context, ca.get()) != 1) {
      return refused("ca");
    }
    has_one = true;
  }
  if (!has_one) return refused("ca");
  ERR_clear_error();
  return {};
}

Status look_for_revocations(SSL_CTX* context, const std::string& folder) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  X509_LOOKUP* const lookup = X509_STORE_add_lookup(store, X509_LOOKUP_hash_dir());
  if (lookup == nullptr || X509_LOOKUP_add_dir(lookup, folder.c_str(), X509_FILETYPE_PEM) != 1 ||
      X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1) {
    return refused("crl_folder");
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

std::string tls_errors() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "no reason given" : reason;
}

Result<TlsContext> make_tls_context(const ServerTls& files, bool require_client_certificates,
                                    const std::string& crl_folder) {
  TlsContext made(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!made) return Status(Code::kResourceExhausted, "TLS: " + tls_errors());
  SSL_CTX* const context = made.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_cipher_list(context, kCiphers);
  SSL_CTX_set_max_cert_list(context, kChainBytesMax);
  SSL_CTX_set_alpn_select_cb(context, choose_http2, nullptr);
  PHUB_RETURN_IF_ERROR(use_chain(context, files.certificate));
  const Key key(PEM_read_bio_PrivateKey(bio_of(files.key).get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return refused("key");
  if (!require_client_certificates) return made;
  PHUB_RETURN_IF_ERROR(trust(context, files.ca));
  if (!crl_folder.empty()) PHUB_RETURN_IF_ERROR(look_for_revocations(context, crl_folder));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     allow_missing_list);
  return made;
}

std::optional<PeerCertificate> certificate_of(const ssl_st& connection) {
  const Certificate shown(SSL_get1_peer_certificate(&connection));
  if (!shown || SSL_get_verify_result(&connection) != X509_V_OK) return std::nullopt;
  return PeerCertificate{.unit = subject_part(shown.get(), NID_organizationalUnitName),
                         .name = subject_part(shown.get(), NID_commonName)};
}

}  // namespace phub::server
