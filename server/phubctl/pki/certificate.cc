#include "server/phubctl/pki/certificate.h"

#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstdio>

#include "common/base/unique_fd.h"
#include "common/base/whole_file.h"

namespace phub::phubctl {
namespace {

constexpr long kSecondsPerDay = 24L * 3600;
// A clock that is a little behind ours must not find the certificate too young.
constexpr long kBackdateSeconds = -3600;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Status failed(const std::string& what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return {Code::kInternal, what + ": " + text.data()};
}

// Never over a file that is there: a key that is lost cannot be made again.
Result<File> create_file(const std::string& path, mode_t mode) {
  UniqueFd descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!descriptor) {
    return errno_status("cannot make " + path +
                            " (files are never overwritten: choose another "
                            "folder, or move it away)",
                        Code::kAlreadyExists);
  }
  return File(::fdopen(descriptor.release(), "w"));
}

Status add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return failed("certificate extension \"" + value + "\"");
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return added == 1 ? Status() : failed("certificate extension");
}

void add_name(X509* certificate, const char* field, const std::string& value) {
  if (value.empty()) return;
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

bool is_ip(const std::string& host) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

// "IP:10.0.0.7,DNS:rack1".
Result<std::string> alternative_names(const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& host : hosts) {
    const bool is_plain =
        !host.empty() && host.size() < 254 &&
        host.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:") ==
            std::string::npos;
    if (!is_plain || (!is_ip(host) && host.find(':') != std::string::npos)) {
      return Status(Code::kInvalidArgument,
                    "--host: \"" + host + "\" is neither a host name nor an IP address");
    }
    text += (text.empty() ? "" : ",") + std::string(is_ip(host) ? "IP:" : "DNS:") + host;
  }
  return text;
}

}  // namespace

Status SignedKey::make_key_and_certificate(const Subject& subject) {
  if (subject.name.empty() || subject.name.size() > 64) {
    return {Code::kInvalidArgument, "name: a certificate's has 1 to 64 characters"};
  }
  key_.reset(EVP_EC_gen("P-256"));
  certificate_.reset(X509_new());
  if (!key_ || !certificate_) return failed("making a key");
  X509* const certificate = certificate_.get();
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> serial(BN_new(), BN_free);
  if (BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1) {
    return failed("random bytes");
  }
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate));
  X509_set_version(certificate, 2);  // counted from 0: X.509 version 3
  X509_gmtime_adj(X509_getm_notBefore(certificate), kBackdateSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate),
                  kSecondsPerDay * static_cast<long>(subject.days));
  add_name(certificate, "O", "PHub");
  add_name(certificate, "OU", subject.unit);
  add_name(certificate, "CN", subject.name);
  return X509_set_pubkey(certificate, key_.get()) == 1 ? Status() : failed("making a certificate");
}

Status SignedKey::sign(const SignedKey& issuer,
                       std::initializer_list<std::pair<int, std::string>> extensions) {
  X509* const certificate = certificate_.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer.certificate_.get()));
  for (const auto& [kind, value] : extensions) {
    if (value.empty()) continue;
    PHUB_RETURN_IF_ERROR(add_extension(certificate, issuer.certificate_.get(), kind, value));
  }
  return X509_sign(certificate, issuer.key_.get(), EVP_sha256()) == 0 ? failed("signing")
                                                                      : Status();
}

Result<SignedKey> SignedKey::make_ca(const Subject& subject) {
  SignedKey ca;
  PHUB_RETURN_IF_ERROR(ca.make_key_and_certificate(subject));
  PHUB_RETURN_IF_ERROR(ca.sign(ca, {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                    {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                    {NID_subject_key_identifier, "hash"}}));
  return ca;
}

Result<SignedKey> SignedKey::issue(const Subject& subject) const {
  PHUB_ASSIGN_OR_RETURN(const std::string names, alternative_names(subject.hosts));
  SignedKey issued;
  PHUB_RETURN_IF_ERROR(issued.make_key_and_certificate(subject));
  const char* const usage = names.empty() ? "clientAuth" : "serverAuth,clientAuth";
  PHUB_RETURN_IF_ERROR(issued.sign(*this, {{NID_basic_constraints, "critical,CA:FALSE"},
                                           {NID_key_usage, "critical,digitalSignature"},
                                           {NID_ext_key_usage, usage},
                                           {NID_authority_key_identifier, "keyid"},
                                           {NID_subject_alt_name, names}}));
  return issued;
}

Result<SignedKey> SignedKey::load(const std::string& certificate, const std::string& key) {
  SignedKey loaded;
  PHUB_RETURN_IF_ERROR(check_readable_to_end(certificate));
  PHUB_RETURN_IF_ERROR(check_readable_to_end(key));
  const File certificate_file(std::fopen(certificate.c_str(), "re"));
  if (!certificate_file) return errno_status("cannot read " + certificate, Code::kNotFound);
  const File key_file(std::fopen(key.c_str(), "re"));
  if (!key_file) return errno_status("cannot read " + key, Code::kNotFound);
  loaded.certificate_.reset(PEM_read_X509(certificate_file.get(), nullptr, nullptr, nullptr));
  loaded.key_.reset(PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  if (!loaded.certificate_ || !loaded.key_ ||
      X509_check_private_key(loaded.certificate_.get(), loaded.key_.get()) != 1) {
    return Status(Code::kInvalidArgument,
                  certificate + " and " + key + " are not a certificate in PEM and its key");
  }
  return loaded;
}

Status SignedKey::save_certificate(const std::string& path) const {
  PHUB_ASSIGN_OR_RETURN(const File file, create_file(path, 0644));
  return PEM_write_X509(file.get(), certificate_.get()) == 1 ? Status() : failed(path);
}

Status SignedKey::save_key(const std::string& path) const {
  PHUB_ASSIGN_OR_RETURN(const File file, create_file(path, 0600));
  const int written =
      PEM_write_PKCS8PrivateKey(file.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return written == 1 ? Status() : failed(path);
}

}  // namespace phub::phubctl
