/* core/base/utf8.h - whether bytes are UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_UTF8_H
#define TD_CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins at p, of which n > 0 may be read; 0: there is none. A NUL is one. */
size_t td_utf8_char(const char *p, size_t n);

/* Whether all n bytes are characters. */
bool td_utf8(const char *p, size_t n);

#endif
