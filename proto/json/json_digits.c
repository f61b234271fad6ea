/* proto/json/json_digits.c - the table: see json_digits.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/json/json_digits.h"

#define TEN(t) t "0\0" t "1\0" t "2\0" t "3\0" t "4\0" t "5\0" t "6\0" t "7\0" t "8\0" t "9\0"
#define HUNDRED(h)                                                                                           \
    TEN(h "0")                                                                                               \
    TEN(h "1") TEN(h "2") TEN(h "3") TEN(h "4") TEN(h "5") TEN(h "6") TEN(h "7") TEN(h "8") TEN(h "9")

const char td_digits_table[] = HUNDRED("0") HUNDRED("1") HUNDRED("2") HUNDRED("3") HUNDRED("4") HUNDRED("5")
    HUNDRED("6") HUNDRED("7") HUNDRED("8") HUNDRED("9");
