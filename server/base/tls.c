/* server/base/tls.c - loads the texts into GnuTLS credentials to see whether they work, then frees them.
 *
 * The check runs before a listener starts, because libmicrohttpd says only that it failed: key and
 * certificate must load and belong together, the CA's text must hold a certificate. A client's certificate is
 * demanded in the session itself: the handshake fails without one that the credentials' CA has signed.
 *
 * Does not: read files (server/models/config_file.c), do the encryption (libmicrohttpd, gRPC), reload
 * certificates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <string.h>

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)(uintptr_t)text, .size = (unsigned)strlen(text)};
}

static enum td_code check_pair(gnutls_certificate_credentials_t c, const char *key, const char *cert,
                               struct td_err *err)
{
    const gnutls_datum_t k = datum(key), p = datum(cert);
    const int rc = gnutls_certificate_set_x509_key_mem(c, &p, &k, GNUTLS_X509_FMT_PEM);
    TD_FAIL_IF(rc < 0, err, INVALID_ARGUMENT, "server_key and server_cert cannot be used: %s",
               gnutls_strerror(rc));
    return TD_OK;
}

static enum td_code check_ca(gnutls_certificate_credentials_t c, const char *ca, struct td_err *err)
{
    const gnutls_datum_t a = datum(ca);
    const int rc = gnutls_certificate_set_x509_trust_mem(c, &a, GNUTLS_X509_FMT_PEM);
    TD_FAIL_IF(rc <= 0, err, INVALID_ARGUMENT, "custom_ca cannot be used: %s",
               rc == 0 ? "it holds no certificate" : gnutls_strerror(rc));
    return TD_OK;
}

enum td_code td_tls_check(const char *key, const char *cert, const char *ca, struct td_err *err)
{
    gnutls_certificate_credentials_t c;
    TD_FAIL_IF(gnutls_certificate_allocate_credentials(&c) < 0, err, RESOURCE_EXHAUSTED,
               "no memory to look at the certificates");
    enum td_code rc = check_pair(c, key, cert, err);
    rc = rc || ca == NULL ? rc : check_ca(c, ca, err);
    gnutls_certificate_free_credentials(c);
    return rc;
}

void td_tls_demand_client(void *gnutls_session)
{
    gnutls_session_t session = gnutls_session;
    gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert(session, NULL, 0);
}
