/* kernels/media/audio.h - samples as the bytes of a WAV file of 16 bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_AUDIO_H
#define TD_KERNELS_MEDIA_AUDIO_H

#include <stddef.h>
#include <stdint.h>

/* Size of a file of n samples, all channels together; n < 2^30 - 64. */
size_t td_wav_bytes(int64_t n);
/* Writes it. Samples are in [-1, 1], those outside are cut. */
void td_wav_encode(const float *x, int64_t n, int64_t channels, int64_t rate, uint8_t *p);

#endif
