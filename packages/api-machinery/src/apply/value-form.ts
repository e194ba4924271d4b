import type { Shape } from "./shape.ts";

/** Which of the forms that a {@link Shape} allows is taken for a value. */
export type Form = "map" | "list" | "scalar";

/**
 * The form of a value. A null, or a value of a form that the shape does not allow, is taken for the first form that the
 * shape does allow, which then treats it as absent.
 */
export function formOf(value: unknown, shape: Shape): Form {
  if (typeof value === "object" && value !== null) {
    if (Array.isArray(value)) {
      if (shape.list) return "list";
    } else if (shape.map) return "map";
  } else if (value !== null && shape.scalar) {
    return "scalar";
  }
  return shape.map ? "map" : shape.scalar ? "scalar" : "list";
}
