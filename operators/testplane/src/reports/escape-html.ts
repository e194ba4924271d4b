import { printable } from "./printable.ts";

/** Escapes text for HTML. */
export const escape = (text: string): string => printable(text).replaceAll(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);
