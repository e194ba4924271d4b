import { type Flag, type FlagValues, invalidFlag } from "../flags.ts";
import { type JsonPathTemplate, parseJsonPathTemplate } from "./json-path-template.ts";

/** How a command prints its result. `table` is the form for people: a table, or text. */
export type OutputFormat =
  | { readonly kind: "table" | "wide" | "json" | "yaml" | "name" }
  | { readonly kind: "jsonpath"; readonly template: JsonPathTemplate };

const jsonPathForm = "jsonpath=TEMPLATE";
const jsonPathPrefix = "jsonpath=";

/** The forms of `--output` that every command has. */
const resultForms = ["table", "json", "yaml", jsonPathForm] as const;

/** `--output` of commands that print a result. */
export const outputFlag = createOutputFlag(resultForms);

/** `--output` of commands that print objects: also `name`, for use in other commands. */
export const objectsOutputFlag = createOutputFlag(["table", "json", "yaml", "name", jsonPathForm]);

/** `--output` of commands that print objects and have columns that only `wide` shows. */
export const wideOutputFlag = createOutputFlag(["table", "wide", "json", "yaml", "name", jsonPathForm]);

/** `--output` with these forms. `text` is accepted for `table`. */
function createOutputFlag(forms: readonly string[]): Flag<OutputFormat> {
  const definition = { name: "output", short: "o", value: "FORMAT", description: "output format", forms, default: "table" };
  return {
    ...definition,
    read(flags: FlagValues) {
      const passed = flags[definition.name];
      const text = typeof passed === "string" && passed !== "" ? passed : definition.default;
      if (text.startsWith(jsonPathPrefix)) return { kind: "jsonpath", template: compile(text) };
      const kind = text === "text" ? "table" : plainFormats.find((each) => each === text && forms.includes(each));
      if (kind === undefined) throw invalidFlag(definition, text, `must be one of ${forms.join(", ")}`);
      return { kind };
    },
  };

  function compile(text: string): JsonPathTemplate {
    try {
      return parseJsonPathTemplate(text.slice(jsonPathPrefix.length));
    } catch (error) {
      if (error instanceof SyntaxError) throw invalidFlag(definition, text, error.message);
      throw error;
    }
  }
}

const plainFormats = ["table", "wide", "json", "yaml", "name"] as const;
