/** A text without control characters, for a terminal: names and arguments are chosen by code in the sandbox. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, "?");
