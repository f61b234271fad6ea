/* core/base/utf8.c - Unicode's table of well-formed byte sequences (chapter 3, D92): what the first byte
 * allows of the second, and how many follow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/utf8.h"

size_t td_utf8_char(const char *p, size_t n)
{
    const unsigned char *s = (const unsigned char *)p, c = s[0];
    const size_t all = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (all <= 1 || all > n) {
        return all == 1;
    }
    const unsigned char least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < least || s[1] > most) {
        return 0;
    }
    for (size_t i = 2; i < all; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return all;
}

bool td_utf8(const char *p, size_t n)
{
    for (size_t i = 0, one; i < n; i += one) {
        one = (unsigned char)p[i] < 0x80 ? 1 : td_utf8_char(p + i, n - i);
        if (one == 0) {
            return false;
        }
    }
    return true;
}
