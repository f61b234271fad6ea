/* server/base/nvml.h - what NVIDIA's management library tells of a GPU: how busy, how warm, how full it is.
 *
 * Of a part of a GPU (MIG) it has the memory; how busy it is nobody tells, how warm it is the GPU does, and
 * what power it draws cannot be told from the other parts'. What it says of the whole GPU is not the part's.
 *
 * libnvidia-ml.so.1 comes with the driver. It is looked for when it is first wanted, and nothing is missed
 * without it but these numbers.
 *
 * Threads: any, but for td_nvml_open and td_nvml_close.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_NVML_H
#define TD_SERVER_BASE_NVML_H

#include <stdbool.h>
#include <stddef.h>

struct td_nvml;

/* NAN: it is not told. */
struct td_nvml_reading {
    double busy; /* the share of the last moments in which a kernel ran: 0 to 1 */
    double celsius, watts;
    double memory, memory_used; /* bytes, of all processes */
    char uuid[96];              /* the one that was given, else as it tells; "": it does not */
};

/* NULL: there is none. */
struct td_nvml *td_nvml_open(void);
void td_nvml_close(struct td_nvml *n); /* accepts NULL */
/* The driver's version, "580.65.06"; "" without one. n may be NULL. */
void td_nvml_driver(const struct td_nvml *n, char *text, size_t room);
/* uuid: "GPU-.." or "MIG-.."; "" is not known, then pci says which: "0000:1b:00.0". n may be NULL. */
void td_nvml_read(const struct td_nvml *n, const char *uuid, const char *pci, struct td_nvml_reading *out);

#endif
