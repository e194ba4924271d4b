import { constants } from "node:os";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { RobotsError } from "../../robots-error.ts";
import { isDynamic, parseTemplate, type Template } from "./template.ts";
import { folderPath } from "./task-path.ts";

/** A template of a task, validated. It is JSON, so that it can be recorded before it is rendered. */
export interface TaskTemplate {
  /** Its text, or the path of its file below the task's directory. */
  readonly from: { readonly text: string } | { readonly file: string };
  /** Path below the task's directory. */
  readonly path: string;
  readonly left: string;
  readonly right: string;
  /** File mode. */
  readonly mode: number;
  /** What happens to the program when the content changes. `signal`: it gets this signal. */
  readonly onChange: "noop" | "restart" | { readonly signal: string };
}

/** Maximum number of templates of a task. */
const maxTemplates = 64;

/** Parses `spec.templates`. Returns a string that begins with the field if a template is invalid. */
export function readTaskTemplates(value: unknown): readonly TaskTemplate[] | string {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > maxTemplates)
    return `spec.templates must be a list of at most ${maxTemplates} templates`;
  const templates: TaskTemplate[] = [];
  for (const [index, each] of value.entries()) {
    const template = isJsonObject(each) ? readTaskTemplate(each) : " must be an object";
    if (typeof template === "string") return `spec.templates[${index}]${template}`;
    templates.push(template);
  }
  return templates;
}

/** The template, or what follows its name in the error. */
function readTaskTemplate(value: JsonObject): TaskTemplate | string {
  const { sourcePath = "", embeddedTmpl = "", destPath, changeMode = "restart", changeSignal = "", perms = "" } = value;
  const [leftDelim, rightDelim] = [value.leftDelim || "{{", value.rightDelim || "}}"];
  for (const [field, text] of Object.entries({
    sourcePath,
    embeddedTmpl,
    destPath,
    changeSignal,
    perms,
    leftDelim,
    rightDelim,
  })) {
    if (typeof text !== "string") return `.${field} must be a string`;
  }
  if ((sourcePath === "") === (embeddedTmpl === "")) return ": set one of sourcePath and embeddedTmpl";
  const path = folderPath(String(destPath));
  if (path === undefined || path === ".")
    return `.destPath: ${JSON.stringify(destPath)} must be a path below the task's directory, outside logs`;
  const file = folderPath(String(sourcePath));
  if (file === undefined)
    return `.sourcePath: ${JSON.stringify(sourcePath)} must be a path below the task's directory, outside logs`;
  if (perms !== "" && !/^0?[0-7]{3}$/.test(String(perms)))
    return `.perms: ${JSON.stringify(perms)} must be an octal mode such as 0644`;
  if (changeMode !== "noop" && changeMode !== "restart" && changeMode !== "signal") {
    return `.changeMode: ${JSON.stringify(changeMode)} must be noop, restart or signal`;
  }
  const signal = `SIG${String(changeSignal).replace(/^SIG/, "")}`;
  if (changeMode === "signal" && !Object.hasOwn(constants.signals, signal)) {
    return `.changeSignal: ${JSON.stringify(changeSignal)} must be a signal such as SIGHUP`;
  }
  const template: TaskTemplate = {
    from: embeddedTmpl === "" ? { file } : { text: String(embeddedTmpl) },
    path,
    left: String(leftDelim),
    right: String(rightDelim),
    mode: perms === "" ? 0o644 : Number.parseInt(String(perms), 8),
    onChange: changeMode === "signal" ? { signal } : changeMode,
  };
  if ("file" in template.from) return template;
  try {
    parseTaskTemplate(template, template.from.text);
    return template;
  } catch (error) {
    if (error instanceof RobotsError) return `.embeddedTmpl: ${error.message}`;
    throw error;
  }
}

/** Parses a template's text. **Errors**: {@link RobotsError} with the code `InvalidTemplate`. */
export function parseTaskTemplate({ left, right }: TaskTemplate, text: string): Template {
  return parseTemplate(text, { left, right });
}

/** Whether a template can change while the task runs: it refers to labels or attributes, or that is not known yet. */
export function mayChange(template: TaskTemplate): boolean {
  return "file" in template.from || isDynamic(parseTaskTemplate(template, template.from.text));
}
