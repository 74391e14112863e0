// The HTTP server over TLS: readers that speak it, peers that do not.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <memory>

#include "server/http/http_server.h"
#include "tests/support/http_peer.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

namespace asio = boost::asio;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using server::HttpOptions;
using server::HttpReply;
using server::HttpRequest;
using server::HttpServer;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

// A key and its own certificate of an hour, as PEM files.
struct TlsIdentity {
  TemporaryDirectory directory;
  std::string certificate = directory.path / "certificate.pem";
  std::string key = directory.path / "key.pem";

  TlsIdentity() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"),
                                                                   &EVP_PKEY_free);
    REQUIRE(pair);
    const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), &X509_free);
    X509_set_version(x509.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
    X509_set_pubkey(x509.get(), pair.get());
    REQUIRE(X509_sign(x509.get(), pair.get(), EVP_sha256()) > 0);
    const File certificate_file(std::fopen(certificate.c_str(), "w"));
    REQUIRE(PEM_write_X509(certificate_file.get(), x509.get()) == 1);
    const File key_file(std::fopen(key.c_str(), "w"));
    REQUIRE(PEM_write_PrivateKey(key_file.get(), pair.get(), nullptr, nullptr, 0, nullptr,
                                 nullptr) == 1);
  }
};

std::unique_ptr<HttpServer> serve_with(const TlsIdentity& identity) {
  auto server =
      HttpServer::create({.address = "127.0.0.1:0",
                          .certificate_file = identity.certificate,
                          .key_file = identity.key,
                          .deadline = kHangGuard},
                         [](const HttpRequest&) { return HttpReply{.body = "over TLS"}; });
  REQUIRE(server);
  return std::move(*server);
}

std::string ask(const HttpServer& server, const TlsIdentity& identity) {
  const auto address = parse_address(server.address());
  REQUIRE(address);
  asio::io_context context;
  asio::ssl::context tls(asio::ssl::context::tls_client);
  tls.load_verify_file(identity.certificate);
  tls.set_verify_mode(asio::ssl::verify_peer);
  asio::ssl::stream<asio::ip::tcp::socket> stream(context, tls);
  stream.lowest_layer().connect({asio::ip::make_address(address->host), address->port});
  stream.handshake(asio::ssl::stream_base::client);
  asio::write(stream,
              asio::buffer(std::string("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")));
  std::string reply;
  boost::system::error_code end;  // the server ends the stream without a farewell
  asio::read(stream, asio::dynamic_buffer(reply), end);
  return reply;
}

}  // namespace

TEST_CASE("a reader that trusts the certificate is served over TLS") {
  const TlsIdentity identity;
  const auto server = serve_with(identity);
  CHECK_THAT(ask(*server, identity), StartsWith("HTTP/1.1 200") && Contains("over TLS"));
}

TEST_CASE("a peer without TLS gets nothing and holds up nobody") {
  const TlsIdentity identity;
  const auto server = serve_with(identity);
  const HttpPeer silent(server->address());
  const HttpPeer plain(server->address());
  plain.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(plain.read_to_end().find("over TLS") == std::string::npos);
  CHECK_THAT(ask(*server, identity), Contains("over TLS"));
}

TEST_CASE("a certificate that is replaced is taken for new connections") {
  const TlsIdentity first;
  const TlsIdentity second;
  const auto server = serve_with(first);
  CHECK_THAT(ask(*server, first), Contains("over TLS"));
  std::filesystem::copy_file(second.certificate, first.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(second.key, first.key,
                             std::filesystem::copy_options::overwrite_existing);
  // Not by the clock: all this happens within one of its ticks.
  std::filesystem::last_write_time(
      first.key, std::filesystem::last_write_time(first.key) + std::chrono::seconds(1));
  CHECK_THAT(ask(*server, second), Contains("over TLS"));
}

TEST_CASE("a key that is not the certificate's is refused with the field") {
  const TlsIdentity one;
  const TlsIdentity other;
  const auto refused = HttpServer::create(
      {.address = "0.0.0.0:0", .certificate_file = one.certificate, .key_file = other.key},
      [](const HttpRequest&) { return HttpReply{}; });
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Contains("key_file") && Contains("belong together"));
}

}  // namespace phub::testing
