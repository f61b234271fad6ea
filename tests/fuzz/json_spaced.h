/* tests/fuzz/json_spaced.h - the same JSON in a form whose numbers are read one by one: what reads many at a
 * time must agree with that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_JSON_SPACED_H
#define TD_TESTS_FUZZ_JSON_SPACED_H

#include <stdbool.h>
#include <stddef.h>

/* n bytes of text, with a space before each comma and closing bracket that is not in a string, and a NUL
 * behind. spaced has room for 2 * n + 1 bytes. Returns how many bytes that are, without the NUL. */
static inline size_t json_spaced(const char *text, size_t n, char *spaced)
{
    bool string = false, escaped = false;
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (!string && (c == ',' || c == ']')) {
            spaced[to++] = ' ';
        }
        spaced[to++] = c;
        string = c == '"' && !escaped ? !string : string;
        escaped = string && c == '\\' && !escaped;
    }
    spaced[to] = '\0';
    return to;
}

#endif
