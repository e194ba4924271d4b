/** A text for a terminal. Control characters, except for line feeds and tabs, become U+FFFD: output of programs must not control it. */
export const printable = (text: string): string => text.replaceAll(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu, "\ufffd");
