/** Escapes text for HTML. */
export const escape = (text: string): string => text.replaceAll(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);
