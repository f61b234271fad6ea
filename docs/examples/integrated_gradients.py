"""Why does the model say five? Integrated gradients of the bundled digits model, asked over REST.

    deploy/quickstart.sh                                             # serves the model; in another terminal:
    python docs/examples/integrated_gradients.py explanation.svg     # needs numpy and requests

The attribution of pixel i for class c is (Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, 2017)

    x_i * mean over k of  d p_c(a_k * x) / d x_i,      a_k = (k + 1/2) / STEPS

from a black image to x. All STEPS points go as one batch in one request; the server differentiates the signature, and a
gradient by an input shares batches as a prediction does. The attributions sum to p_c(x) - p_c(black), which is checked.
"""
import sys

import numpy as np
import requests

URL = sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8501/v1/models/digits"
STEPS = 512
FIVE = np.array([[0, 5, 12, 13, 16, 16, 2, 0], [0, 11, 16, 15, 8, 4, 0, 0], [0, 8, 14, 11, 1, 0, 0, 0], [0, 8, 16, 16, 14, 0, 0, 0],
                 [0, 1, 6, 6, 16, 0, 0, 0], [0, 0, 0, 5, 16, 3, 0, 0], [0, 1, 5, 15, 13, 0, 0, 0], [0, 4, 15, 16, 2, 0, 0, 0]], float)


def post(verb, body):
    answer = requests.post(f"{URL}:{verb}", json=body, timeout=30)
    if answer.status_code != 200:
        sys.exit(answer.json()["error"])
    return answer.json()


def probabilities(images):
    return np.array(post("predict", {"inputs": {"images": images.tolist()}})["outputs"]["probabilities"])


def attribution(image, digit):
    path = ((np.arange(STEPS) + 0.5) / STEPS)[:, None, None] * image
    of_digit = np.zeros((STEPS, 10))
    of_digit[:, digit] = 1
    answer = post("gradient", {"inputs": {"images": path.tolist()}, "target": "probabilities", "wrt": ["images"],
                               "output_gradients": {"probabilities": of_digit.tolist()}})
    return image * np.array(answer["gradients"]["images"]).mean(axis=0)


# ---------------------------------------------------------------- the picture

def color(v):
    """Red for what speaks for the class (v to 1), blue against it (to -1), white for nothing."""
    fade = round(255 * (1 - min(abs(v), 1)))
    return f"rgb(255,{fade},{fade})" if v >= 0 else f"rgb({fade},{fade},255)"


def panel(left, title, colors):
    cells = "".join(f'<rect x="{left + 24 * x}" y="{40 + 24 * y}" width="24" height="24" fill="{colors[y][x]}"/>'
                    for y in range(8) for x in range(8))
    return (f'<text x="{left + 96}" y="28" text-anchor="middle">{title}</text>{cells}'
            f'<rect x="{left}" y="40" width="192" height="192" fill="none" stroke="gray"/>')


def picture(image, parts):
    grays = [[f"rgb({g},{g},{g})" for g in row] for row in (255 - image * 255 / 16).astype(int).tolist()]
    panels = [panel(16, "the image", grays)]
    largest = max(np.abs(a).max() for _, _, a in parts)
    for k, (digit, p, a) in enumerate(parts):
        panels.append(panel(16 + 216 * (k + 1), f"is it a {digit}? {100 * p:.1f} %", [[color(v / largest) for v in row] for row in a.tolist()]))
    width = 24 + 216 * len(panels)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="264" font-family="sans-serif" font-size="15">'
            f'<rect width="{width}" height="264" fill="white"/>{"".join(panels)}'
            f'<text x="{width // 2}" y="254" text-anchor="middle" font-size="13">red pixels speak for the digit, blue ones against it</text></svg>\n')


def main():
    p = probabilities(np.stack([FIVE, 0 * FIVE]))
    parts = []
    for digit in np.argsort(-p[0])[:2].tolist():
        a = attribution(FIVE, digit)
        print(f"{digit}: probability {p[0, digit]:.4f}; attributions sum to {a.sum():.4f}, the probabilities differ by {p[0, digit] - p[1, digit]:.4f}")
        parts.append((digit, p[0, digit], a))
    with open(sys.argv[1] if len(sys.argv) > 1 else "explanation.svg", "w") as f:
        f.write(picture(FIVE, parts))


if __name__ == "__main__":
    main()
