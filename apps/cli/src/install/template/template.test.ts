import type { JsonValue } from "@keelson/api-machinery";
import { expect, test } from "vitest";
import { evaluateTemplate, MissingValueError } from "./evaluate-template.ts";
import { printTemplate } from "./print-template.ts";
import {
  all,
  any,
  choose,
  concat,
  type Condition,
  equals,
  installNamespace,
  isSet,
  merge,
  not,
  splice,
  type Template,
  value,
  when,
} from "./template.ts";

const evaluate = (template: Template, values: JsonValue): JsonValue =>
  evaluateTemplate(template, { values, namespace: "work" });

test("evaluates values, text and the namespace", () => {
  expect(
    evaluate({ a: value("x.y"), b: concat("p-", value("n"), ":8080"), c: installNamespace }, { x: { y: [1] }, n: "q" }),
  ).toEqual({
    a: [1],
    b: "p-q:8080",
    c: "work",
  });
});

test.each([
  ["isSet", isSet("v"), ["x", 1, true, [0], { a: 1 }], ["", 0, false, [], {}, null]],
  ["not", not(isSet("v")), [""], ["x"]],
  ["equals", equals("v", "x"), ["x"], ["y", 1]],
  ["all", all(isSet("v"), equals("v", "x")), ["x"], ["y", ""]],
  ["any", any(equals("v", "x"), equals("v", "y")), ["x", "y"], ["z"]],
] as readonly (readonly [string, Condition, JsonValue[], JsonValue[]])[])(
  "omits entries and elements whose condition does not hold: %s",
  (_, condition, yes, no) => {
    const template = { a: when(condition, 1), list: [when(condition, "in"), "always"], chosen: choose(condition, "yes", "no") };
    for (const v of yes) expect(evaluate(template, { v })).toEqual({ a: 1, list: ["in", "always"], chosen: "yes" });
    for (const v of no) expect(evaluate(template, { v })).toEqual({ list: ["always"], chosen: "no" });
  },
);

test("inserts the elements of lists and the entries of maps", () => {
  const template = { list: ["a", splice("more")], map: merge({ a: "1" }, "labels") };
  expect(evaluate(template, { more: ["b", "c"], labels: { d: "2" } })).toEqual({
    list: ["a", "b", "c"],
    map: { a: "1", d: "2" },
  });
});

test("names a value that does not exist", () => {
  expect(() => evaluate({ a: value("x.y") }, { x: {} })).toThrow(new MissingValueError("x.y"));
});

test("prints block YAML with actions, and escapes text that looks like one", () => {
  const template = {
    a: value("x"),
    on: "{{ text }}",
    b: when(isSet("x"), { c: [{ d: concat("p", value("x")) }, when(not(equals("x", "1")), "e"), splice("l")] }),
  };
  expect(printTemplate(template)).toBe(
    [
      "a: {{ toJson .Values.x }}",
      '"on": "{{ "{{" }} text }}"',
      "{{- if .Values.x }}",
      "b:",
      "  c:",
      '    - d: {{ toJson (printf "%v%v" "p" .Values.x) }}',
      '{{- if (not (eq .Values.x "1")) }}',
      '    - "e"',
      "{{- end }}",
      "{{- range .Values.l }}",
      "    - {{ toJson . }}",
      "{{- end }}",
      "{{- end }}",
      "",
    ].join("\n"),
  );
});

test("prints the schema of a field on one line, because indentation would make up most of a definition", () => {
  const field = { type: "string", enum: ["a", "{{b}}"] };
  const nested = (depth: number): object => (depth === 0 ? { field, of: { field } } : { a: nested(depth - 1) });
  const lines = printTemplate(nested(9) as never).split("\n");
  expect(lines.slice(9).map((line) => line.trimStart())).toEqual([
    'field: { type: "string", enum: ["a","{{ "{{" }}b}}"] }',
    "of:",
    'field: { type: "string", enum: ["a","{{ "{{" }}b}}"] }',
    "",
  ]);
  expect(printTemplate(nested(8) as never)).toContain("field:\n");
});
