#include "server/http/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <thread>
#include <utility>

#include "common/rpc/address.h"
#include "server/http/session.h"

namespace phub::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

// Between tries when the process has no descriptor left for another connection.
constexpr std::chrono::milliseconds kAcceptPause{100};

Status listen_error(const std::string& address, const Error& error) {
  const std::string what = fmt::format("http_address: cannot listen on {}", address);
  if (error == asio::error::address_in_use) {
    return {Code::kAlreadyExists,
            what + ": the port is in use; choose another, or port 0 for a free one (--http)"};
  }
  return {Code::kUnavailable,
          fmt::format("{}: {}; is it an address of this host?", what, error.message())};
}

Status tls_error(std::string_view field, const std::string& file, const Error& error) {
  return {Code::kInvalidArgument,
          fmt::format("{}: {}: {}; is it a PEM file that this user may read, and do the "
                      "certificate and the key belong together?",
                      field, file, error.message())};
}

Result<std::unique_ptr<asio::ssl::context>> tls_from(const HttpOptions& options) {
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  Error error;
  tls->set_options(
      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1,
      error);
  tls->use_certificate_chain_file(options.certificate_file, error);
  if (error) return tls_error("certificate_file", options.certificate_file, error);
  tls->use_private_key_file(options.key_file, asio::ssl::context::pem, error);
  if (error) return tls_error("key_file", options.key_file, error);
  return tls;
}

using FileTimes = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;

FileTimes times_of(const HttpOptions& options) {
  std::error_code ignored;
  return {std::filesystem::last_write_time(options.certificate_file, ignored),
          std::filesystem::last_write_time(options.key_file, ignored)};
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpOptions& options, HttpHandler handler)
      : options_(options),
        sessions_{.handler = std::move(handler), .deadline = options.deadline, .connections = {}} {}

  ~BeastServer() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status listen() {
    PHUB_ASSIGN_OR_RETURN(Address address, parse_address(options_.address));
    Error error;
    const auto ip = asio::ip::make_address(address.host, error);
    if (error) {
      return {Code::kInvalidArgument,
              fmt::format("http_address: \"{}\" is not an IP address; write for example "
                          "127.0.0.1:7079",
                          address.host)};
    }
    if (!options_.certificate_file.empty()) {
      tls_read_ = times_of(options_);
      PHUB_ASSIGN_OR_RETURN(tls_, tls_from(options_));
    } else if (!ip.is_loopback() && !options_.allow_plaintext) {
      return {Code::kInvalidArgument,
              fmt::format("http_address: {} can be reached from other hosts, and there is no "
                          "certificate: whoever listens on the way reads what is served; set "
                          "http_allow_plaintext, or use a loopback address and a tunnel",
                          options_.address)};
    }
    const tcp::endpoint endpoint(ip, address.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return listen_error(options_.address, error);
    address.port = acceptor_.local_endpoint(error).port();
    address_ = to_string(address);
    return {};
  }

  void run() {
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }

  std::string address() const override { return address_; }

 private:
  void accept() {
    acceptor_.async_accept([this](const Error& error, tcp::socket socket) {
      if (error) return accept_later();
      renew_tls();
      if (make_room()) {
        start_session(sessions_, boost::beast::tcp_stream(std::move(socket)), tls_.get());
      }
      accept();
    });
  }

  void accept_later() {
    timer_.expires_after(kAcceptPause);
    timer_.async_wait([this](const Error& error) {
      if (!error) accept();
    });
  }

  // Connections that are open keep what they have. Files that do not fit together yet are tried
  // again with the next connection.
  void renew_tls() {
    if (tls_ == nullptr || times_of(options_) == tls_read_) return;
    const FileTimes times = times_of(options_);
    Result<std::unique_ptr<asio::ssl::context>> fresh = tls_from(options_);
    if (!fresh) return;
    tls_ = std::move(*fresh);
    tls_read_ = times;
  }

  // A closed connection is counted until its callbacks have run: hence room for as many again.
  bool make_room() {
    const auto& open = sessions_.connections;
    if (open.size() < options_.connections_max) return true;
    if (open.size() >= 2 * options_.connections_max) return false;
    const auto waiting = std::find_if(open.begin(), open.end(),
                                      [](const HttpConnection* c) { return c->is_waiting(); });
    if (waiting == open.end()) return false;
    (*waiting)->close();
    return true;
  }

  const HttpOptions options_;
  SessionContext sessions_;
  std::unique_ptr<asio::ssl::context> tls_;
  FileTimes tls_read_;           // when its files were written
  asio::io_context context_{1};  // its callbacks hold the sessions: it goes before what they use
  tcp::acceptor acceptor_{context_};
  asio::steady_timer timer_{context_};
  std::string address_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::create(const HttpOptions& options,
                                                       HttpHandler handler) {
  auto server = std::make_unique<BeastServer>(options, std::move(handler));
  PHUB_RETURN_IF_ERROR(server->listen());
  server->run();
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace phub::server
