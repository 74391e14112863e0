#include "server/http/session.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace phub::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Error = beast::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::uint32_t kHeadBytesMax = 8192;  // a browser's is about 1 KiB
constexpr unsigned kHttp11 = 11;

HttpReply refusal(unsigned status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

// What a head that could not be read is answered with; nothing to a peer that is gone or late.
std::optional<HttpReply> reply_to(const Error& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refusal(431, "The request's head is longer than 8 KiB.\n");
  }
  const bool is_http = error.category() == make_error_code(http::error::bad_method).category();
  if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) {
    return {};
  }
  return refusal(400, "This is not HTTP/1.1.\n");
}

template <typename Stream>
class HttpSession final : public HttpConnection,
                          public std::enable_shared_from_this<HttpSession<Stream>> {
 public:
  template <typename... Arguments>
  explicit HttpSession(SessionContext& context, Arguments&&... arguments)
      : context_(context),
        stream_(std::forward<Arguments>(arguments)...),
        place_(context.connections.insert(context.connections.end(), this)) {}
  ~HttpSession() override { context_.connections.erase(place_); }
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  bool is_waiting() const override { return is_waiting_; }
  void close() override {
    is_waiting_ = false;
    beast::get_lowest_layer(stream_).close();
  }

  void start() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      limit_time();
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const Error& error) {
                                if (!error) self->read();
                              });
    } else {
      read();
    }
  }

 private:
  void limit_time() { beast::get_lowest_layer(stream_).expires_after(context_.deadline); }

  void read() {
    is_waiting_ = true;
    parser_.emplace();
    parser_->header_limit(kHeadBytesMax);
    limit_time();
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](const Error& error, std::size_t /*bytes*/) {
          self->is_waiting_ = false;
          self->on_head(error);
        });
  }

  void on_head(const Error& error) {
    if (error) {
      if (auto reply = reply_to(error)) write(std::move(*reply), {.is_head = false});
      return;
    }
    const auto& request = parser_->get();
    const bool is_head = request.method() == http::verb::head;
    if (!is_head && request.method() != http::verb::get) {
      return write(refusal(405, "GET and HEAD only.\n"), {.is_head = false});
    }
    // A coding that is not known would leave its body to be taken for the next request.
    const bool has_coding = request.find(http::field::transfer_encoding) != request.end();
    if (has_coding || parser_->content_length().value_or(0) > 0) {
      return write(refusal(413, "A request has no body here.\n"), {.is_head = is_head});
    }
    const auto target = request.target();
    const auto authorization = request[http::field::authorization];
    const auto host = request[http::field::host];
    write(context_.handler({.target = {target.data(), target.size()},
                            .authorization = {authorization.data(), authorization.size()},
                            .host = {host.data(), host.size()}}),
          {.is_head = is_head, .keep_alive = request.keep_alive()});
  }

  struct Manner {
    bool is_head = false;
    bool keep_alive = false;
  };

  void write(HttpReply reply, Manner manner) {
    http::response<http::string_body>& response =
        response_.emplace(static_cast<http::status>(reply.status), kHttp11, std::move(reply.body));
    response.set(http::field::content_type,
                 beast::string_view(reply.content_type.data(), reply.content_type.size()));
    response.set(http::field::cache_control, "no-store");
    // The page needs nothing but its own files, and nobody else's page needs it.
    response.set("Content-Security-Policy",
                 "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.set("Referrer-Policy", "no-referrer");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
    if (reply.status == 401) response.set(http::field::www_authenticate, "Bearer realm=\"phub\"");
    if (reply.status == 405) response.set(http::field::allow, "GET, HEAD");
    response.keep_alive(manner.keep_alive);
    response.prepare_payload();
    serializer_.emplace(response);
    limit_time();
    auto done = [self = this->shared_from_this()](const Error& error, std::size_t /*bytes*/) {
      if (!error) self->on_written();
    };
    if (manner.is_head) {
      http::async_write_header(stream_, *serializer_, std::move(done));
    } else {
      http::async_write(stream_, *serializer_, std::move(done));
    }
  }

  void on_written() {
    if (response_->keep_alive()) return read();
    Error ignored;
    beast::get_lowest_layer(stream_).socket().shutdown(asio::ip::tcp::socket::shutdown_send,
                                                       ignored);
  }

  SessionContext& context_;
  Stream stream_;
  std::list<HttpConnection*>::iterator place_;
  bool is_waiting_ = true;
  beast::flat_buffer buffer_{2 * kHeadBytesMax};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
};

}  // namespace

void start_session(SessionContext& context, beast::tcp_stream stream, asio::ssl::context* tls) {
  if (tls == nullptr) {
    std::make_shared<HttpSession<PlainStream>>(context, std::move(stream))->start();
  } else {
    std::make_shared<HttpSession<TlsStream>>(context, std::move(stream), *tls)->start();
  }
}

}  // namespace phub::server
