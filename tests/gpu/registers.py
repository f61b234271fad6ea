"""What nvcc made of the kernels: registers of each by compute capability, and whether they suffice.

    python3 tests/gpu/registers.py build/kernels/cuda/all           a row for each family, as docs/gpu.md has it
    python3 tests/gpu/registers.py --check build/kernels/cuda/all   fails where a kernel spills registers to local memory

It reads what ptxas said when `ninja tensord_cuda` compiled them (kernels/cuda/compile.sh).
"""
import argparse
import glob
import os
import re
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
USED = re.compile(r"Used (\d+) registers")


def kernels(folder):
    """(capability, family, name, registers, spilled bytes) of each."""
    for path in sorted(glob.glob(os.path.join(folder, "*.cu.o.log"))):
        family, entry, spilled = os.path.basename(path).split(".")[0], None, 0
        for line in open(path, encoding="utf-8"):
            if m := ENTRY.search(line):
                entry, spilled = m, 0
            elif (m := STACK.search(line)) and entry:
                spilled = int(m.group(2))
            elif (m := USED.search(line)) and entry:
                yield int(entry.group(2)), family, entry.group(1), int(m.group(1)), spilled
                entry = None


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder")
    args.add_argument("--check", action="store_true")
    args = args.parse_args()
    found = list(kernels(args.folder))
    if not found:
        sys.exit(f"{args.folder} has no logs of kernels")
    spills = [k for k in found if k[4] > 0]
    for arch, _, name, _, local in spills:
        print(f"sm_{arch}: {name} spills {local} bytes")
    if args.check:
        print(f"{len(found)} kernels, {len(spills)} of them spill")
        sys.exit(1 if spills else 0)
    archs = sorted({k[0] for k in found})
    print("| family | kernels | " + " | ".join(f"sm_{a}" for a in archs) + " |\n|---|---" + "|---" * len(archs) + "|")
    for f in sorted({k[1] for k in found}):
        cells = []
        for a in archs:
            regs = [k[3] for k in found if k[:2] == (a, f)]
            cells.append(f"{min(regs)}-{max(regs)}" if regs else "")
        print(f"| {f} | {len({k[2] for k in found if k[1] == f})} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
