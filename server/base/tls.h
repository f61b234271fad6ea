/* server/base/tls.h - certificates: checked before they are used, and demanded of clients of the HTTP
 * listener.
 *
 * The only file that calls GnuTLS, which is libmicrohttpd's; gRPC brings its own TLS.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_TLS_H
#define TD_SERVER_BASE_TLS_H

#include "core/base/status.h"

/* PEM texts; ca may be NULL. INVALID_ARGUMENT says which of them is wrong, and how. */
TD_MUST enum td_code td_tls_check(const char *key, const char *cert, const char *ca, struct td_err *err);
/* Of a gnutls_session_t whose handshake has not begun: it shall fail without a client certificate of the
 * listener's CA. */
void td_tls_demand_client(void *gnutls_session);

#endif
