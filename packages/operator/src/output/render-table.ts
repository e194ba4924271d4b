/**
 * Renders rows as a table with aligned columns, two spaces apart, without trailing spaces. The first row defines the
 * number of columns. Control characters in cells become `?`: texts of programs must not control the terminal.
 */
export function renderTable(rows: readonly (readonly string[])[]): string {
  return new TableWriter().write(rows);
}

/** Renders a table in parts, such as the rows of a watch: a column keeps its width, and grows with wider cells. */
export class TableWriter {
  #widths: readonly number[] | undefined;

  /** Renders the next rows as {@link renderTable} does. The first row of all defines the number of columns. */
  write(texts: readonly (readonly string[])[]): string {
    const rows = texts.map((row) => row.map((cell) => cell.replace(/\p{Cc}/gu, "?")));
    const previous = this.#widths ?? rows[0]?.map(() => 0) ?? [];
    const widths = previous.map((width, column) => Math.max(width, ...rows.map((row) => row[column]?.length ?? 0)));
    this.#widths = widths;
    const line = (row: readonly string[]): string => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    return rows.map((row) => `${line(row).trimEnd()}\n`).join("");
  }
}
