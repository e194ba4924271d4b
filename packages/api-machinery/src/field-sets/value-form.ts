import type { Shape } from "./shape.ts";

/** The form of a value among those that its {@link Shape} allows. */
export type Form = "map" | "list" | "scalar";

/**
 * Returns the form of a value. A null, or a value of a form that the shape does not allow, takes the first allowed form,
 * which treats it as absent.
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
