"""Draws of the commonest ops."""

from draw_source import F


def resize(s):
    half = s.chance(0.5)
    return {"images": s.array(s.one(F + ["uint8", "int32"]), (s.int(1, 2), s.int(1, 6), s.int(1, 6), s.int(1, 3)), 0, 9),
            "size": s.array("int32", (2,), 1, 9)}, {"half_pixel_centers": half, "align_corners": not half and s.chance(0.5)}





DRAWS = {"ResizeBilinear": resize, "ResizeNearestNeighbor": resize}
