"""Dice for the attack generators: numbers and texts that parsers stumble over, and bytes that were damaged."""
import random

NUMBERS = (0, 1, 2, 7, 63, 64, 127, 128, 255, 256, 4095, 4096, 16383, 16384, 65535, 65536, (1 << 24) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
           (1 << 53) + 1, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = ("", "x", "half", "serving_default", "../../etc/passwd", "a/b", "%00", "\0", "\x7f", "\u2028", "\ud7ff", "\U0001f600", "%s%n", "*", "..", "a" * 300, "\\", '"', "-1", "1e999",
         "var:*", "b64", "nan", "true")


class Dice(random.Random):
    def chance(self, p):
        return self.random() < p

    def number(self):
        """One that is at an edge, near one, or small."""
        if self.chance(0.3):
            return self.randrange(20)
        return max(0, self.choice(NUMBERS) + self.choice((0, 0, 0, -1, 1)))

    def noise(self, most):
        return self.randbytes(self.randrange(most + 1))

    def size(self, most):
        """Small more often than large."""
        return int(most ** self.random()) - 1

    def pieces(self, data, most=6):
        """data, cut at random places."""
        cuts = sorted(self.randrange(len(data) + 1) for _ in range(self.randrange(most)))
        return [p for p in (data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])) if p]

    def damaged(self, data, other=b"", most=4):
        """A few of: a bit turned, bytes overwritten, cut out, repeated, put in; a number at an edge; the end missing; another's bytes."""
        data = bytearray(data)
        for _ in range(self.randrange(1, most + 1)):
            at = self.randrange(len(data) + 1)
            n = 1 + self.size(max(2, min(len(data), 4096)))
            how = self.randrange(8)
            if how == 0 and data:
                data[at - 1] ^= 1 << self.randrange(8)
            elif how == 1:
                data[at:at + n] = self.randbytes(len(data[at:at + n]))
            elif how == 2:
                del data[at:at + n]
            elif how == 3:
                data[at:at] = data[at:at + n] * self.randrange(1, 5)
            elif how == 4:
                data[at:at] = self.randbytes(n % 64)
            elif how == 5:
                width = self.choice((1, 2, 4, 8))
                data[at:at + width] = (self.number() & (1 << 8 * width) - 1).to_bytes(width, self.choice(("little", "big")))
            elif how == 6:
                del data[at:]
            elif other:
                begin = self.randrange(len(other))
                data[at:at + n] = other[begin:begin + n]
        return bytes(data)
