#include "server/door/pump/wire.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

namespace phub::server {
namespace {

bool is_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

// OpenSSL's own sockets raise SIGPIPE.
int bio_send(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto sent = ::send(socket_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && is_later(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_receive(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto got = ::recv(socket_of(bio), bytes, static_cast<std::size_t>(size), 0);
  if (got < 0 && is_later(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};

const BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, FreeMethod> method = [] {
    std::unique_ptr<BIO_METHOD, FreeMethod> made(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE"));
    BIO_meth_set_write(made.get(), bio_send);
    BIO_meth_set_read(made.get(), bio_receive);
    BIO_meth_set_ctrl(made.get(), bio_control);
    return made;
  }();
  return method.get();
}

// Without a byte moved.
Wire::Need need_of(ssize_t result) {
  if (result < 0 && is_later(errno)) return Wire::Need::kNothing;
  return Wire::Need::kOver;
}

}  // namespace

void Wire::Free::operator()(ssl_st* tls) const { SSL_free(tls); }

Wire::Wire(int socket, const TlsContext& tls) : socket_(socket), is_plain_(tls == nullptr) {
  if (is_plain_) return;
  tls_.reset(SSL_new(tls.get()));
  BIO* const bio = tls_ ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr) {  // no memory
    tls_.reset();
    return;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in a pointer's place
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(tls_.get(), bio, bio);
  SSL_set_accept_state(tls_.get());
}

Wire::Moved Wire::moved(int result) const {
  if (result > 0) return {.bytes = static_cast<std::size_t>(result)};
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {.need = Need::kReadable};
    case SSL_ERROR_WANT_WRITE:
      return {.need = Need::kWritable};
    default:
      ERR_clear_error();
      return {.need = Need::kOver};
  }
}

Wire::Need Wire::shake_hands() {
  if (is_shaken_ || is_plain_) return Need::kNothing;
  if (tls_ == nullptr) return Need::kOver;
  ERR_clear_error();
  const Moved step = moved(SSL_do_handshake(tls_.get()));
  if (step.bytes == 0) return step.need;
  const unsigned char* protocol = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(tls_.get(), &protocol, &length);
  if (length == 0) return Need::kOver;  // whoever speaks HTTP/2 says so
  is_shaken_ = true;
  return Need::kNothing;
}

Wire::Moved Wire::read(char* bytes, std::size_t size) {
  if (!is_plain_) {
    ERR_clear_error();
    return moved(SSL_read(tls_.get(), bytes, static_cast<int>(size)));
  }
  const ssize_t got = ::recv(socket_, bytes, size, 0);
  if (got > 0) return {.bytes = static_cast<std::size_t>(got)};
  const Need need = need_of(got);
  return {.need = need == Need::kNothing ? Need::kReadable : need};
}

Wire::Moved Wire::write(std::string_view bytes) {
  if (!is_plain_) {
    ERR_clear_error();
    return moved(SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())));
  }
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent > 0) return {.bytes = static_cast<std::size_t>(sent)};
  const Need need = need_of(sent);
  return {.need = need == Need::kNothing ? Need::kWritable : need};
}

void Wire::end_writing() {
  if (is_shaken_) {
    SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_, SHUT_WR);
}

std::optional<PeerCertificate> Wire::certificate() const {
  return is_shaken_ ? certificate_of(*tls_) : std::nullopt;
}

}  // namespace phub::server
