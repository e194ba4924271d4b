/**
 * Renders rows as a table with aligned columns, two spaces apart, without trailing spaces. The first row defines the
 * number of columns. Control characters in cells become `?`: texts of programs must not control the terminal.
 */
export function renderTable(texts: readonly (readonly string[])[]): string {
  const rows = texts.map((row) => row.map((cell) => cell.replace(/\p{Cc}/gu, "?")));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return rows.map((row) => `${line(row).trimEnd()}\n`).join("");
}
