/** A template error with its position. Lines and columns count from 1. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  readonly code: "Syntax" | "Execution" | "Limit";
  readonly template: string;
  readonly line: number;
  readonly column: number;

  constructor(code: TemplateError["code"], template: string, at: Position, message: string) {
    super(`${template}:${at.line}:${at.column}: ${message}`);
    this.code = code;
    this.template = template;
    this.line = at.line;
    this.column = at.column;
  }
}

/** A position in a template's source. */
export interface Position {
  readonly line: number;
  readonly column: number;
}
