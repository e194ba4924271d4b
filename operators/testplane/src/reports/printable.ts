/**
 * A text for a terminal or a document. Control characters, except for line feeds and tabs, become U+FFFD: output of programs must neither
 * control the terminal nor make the document binary.
 */
export const printable = (text: string): string => text.replaceAll(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu, "\ufffd");
